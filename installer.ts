/**
 * Writes into `install.sh` where releases are published. The script in the source names no address: one that is not the
 * project's would be everybody's who registers it. The address comes from `repository` in package.json, once it has one.
 */

/** The script with the address of the releases of `repository`, as package.json has it; unchanged where there is none. */
export function stampInstaller(script: string, repository: unknown): string {
  const address = releasesOf(repository)
  if (address === undefined) return script
  const stamped = script.replace(/^published=$/m, `published=${address}`)
  if (stamped === script) throw new Error("install.sh has no line for the address of its releases")
  return stamped
}

// ---

/** GitHub's address of the files of the latest release. Throws where `repository` is no address that a shell may read. */
function releasesOf(repository: unknown): string | undefined {
  const url = typeof repository === "object" && repository !== null && "url" in repository ? repository.url : repository
  if (url === undefined) return undefined
  const plain = String(url)
    .replace(/^github:/, "https://github.com/")
    .replace(/^git\+/, "")
    .replace(/(?:\.git)?\/?$/, "")
  if (!/^https:\/\/[\w.-]+(?:\/[\w.-]+)+$/.test(plain))
    throw new Error("repository in package.json is no https address")
  return `${plain}/releases/latest/download`
}
