/** Takes the notes of a release from CHANGELOG.md. */

/**
 * Returns the section of a version in the Markdown of the changelog, with the version and its date as its heading. Throws if
 * the changelog has no section for the version, or an empty one.
 */
export function changesOf(changelog: string, version: string, date: Date): string {
  const sections = changelog.split(/^## /m).slice(1)
  const section = sections.find((one) => one.split(/\s/, 1)[0] === version)
  const text = section?.slice(section.indexOf("\n") + 1).trim() ?? ""
  if (text === "") throw new Error(`CHANGELOG.md has no changes of ${version}: write them under "## ${version}"`)
  return `## ${version} (${date.toISOString().slice(0, 10)})\n\n${text}\n`
}
