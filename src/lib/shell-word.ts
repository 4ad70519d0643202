/** Returns a word as a person can paste it into a command: into sh, or on Windows into PowerShell and cmd. */
export function shellWord(word: string, isWindows: boolean): string {
  if (/^[\w@%+=:,./~-]+$/.test(word)) return word
  // Windows has no way to write a quote that both of its shells read.
  return isWindows ? `"${word}"` : `'${word.replaceAll("'", "'\\''")}'`
}
