/**
 * Writes the URL of the releases into `install.sh` and `install.ps1`. The scripts in the source name none: a URL that the
 * project does not own could be registered by an attacker.
 */

/** Returns a script with the URL of the folder with the latest release. Throws if the script has no empty line for it. */
export function stampInstaller(script: string, latest: string): string {
  const stamped = script
    .replace(/^published=$/m, `published=${latest}`)
    .replace(/^\$published = ''$/m, `$$published = '${latest}'`)
  if (stamped === script) throw new Error("the script has no line for the URL of the releases")
  return stamped
}
