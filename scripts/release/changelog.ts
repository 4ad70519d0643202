/** Makes the list of changes from the subjects of commits, `folders: what changed`. */

/** Folders with changes that no user sees. */
const INTERNAL = new Set(["test", "docs", "ci", "release", "build"])

/** Returns the changes of a version in Markdown, sorted by folder. */
export function changelogOf(version: string, date: Date, subjects: readonly string[]): string {
  const changes = new Map<string, string[]>()
  for (const subject of subjects) {
    const [, folders = "", change = ""] = /^([\w, /.-]+): (.*)$/.exec(subject) ?? ["", "other", subject]
    if (folders.split(", ").every((folder) => INTERNAL.has(folder))) continue
    const [first = ""] = folders.split(", ")
    changes.set(first, [...(changes.get(first) ?? []), change])
  }
  const sections = [...changes]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([folder, lines]) => `### ${folder}\n\n${lines.map((line) => `- ${line}`).join("\n")}\n`)
  return [`## ${version} (${date.toISOString().slice(0, 10)})\n`, ...sections].join("\n")
}
