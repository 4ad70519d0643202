/**
 * Writes the URL of the releases into `install.sh`. The script in the source names none: a URL that the project does not own
 * could be registered by an attacker. The URL follows from `repository` in package.json, once that is set.
 */

/** Returns the script with the URL of the releases of `repository`, the value in package.json; unchanged if it is undefined. */
export function stampInstaller(script: string, repository: unknown): string {
  const address = releasesOf(repository)
  if (address === undefined) return script
  const stamped = script.replace(/^published=$/m, `published=${address}`)
  if (stamped === script) throw new Error("install.sh has no line `published=`")
  return stamped
}

// ---

/** Returns GitHub's URL of the latest release. Throws if `repository` is not a plain https URL, safe in a shell script. */
function releasesOf(repository: unknown): string | undefined {
  const url = typeof repository === "object" && repository !== null && "url" in repository ? repository.url : repository
  if (url === undefined) return undefined
  const plain = String(url)
    .replace(/^github:/, "https://github.com/")
    .replace(/^git\+/, "")
    .replace(/(?:\.git)?\/?$/, "")
  if (!/^https:\/\/[\w.-]+(?:\/[\w.-]+)+$/.test(plain))
    throw new Error("repository in package.json is not an https URL")
  return `${plain}/releases/latest/download`
}
