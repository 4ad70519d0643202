/** Returns the command that starts this program again, whether it is compiled or runs from source. */
export function ownCommand(...args: readonly string[]): readonly [string, ...string[]] {
  const compiled = import.meta.path.startsWith("/$bunfs/") || import.meta.path.includes("~BUN")
  return compiled ? [process.execPath, ...args] : [process.execPath, Bun.main, ...args]
}
