/**
 * Windows refuses to move or remove a file that somebody has open, be it a virus scanner, an indexer or a reader: mostly
 * it is over in a moment. Elsewhere nothing is refused for that.
 */

/** Does it again where it was refused for a moment. Throws what was thrown last. */
export function retryOnWindowsLock<T>(
  act: () => T,
  platform: string = process.platform,
  sleep: (ms: number) => void = Bun.sleepSync,
): T {
  for (let tries = 1; ; tries++)
    try {
      return act()
    } catch (error) {
      if (tries >= MAX_TRIES || !isWindowsLock(error, platform)) throw error
      sleep(PAUSE_MS)
    }
}

/** Whether it may be refused because somebody has the file open. */
export const isWindowsLock = (error: unknown, platform: string = process.platform): boolean =>
  platform === "win32" && error instanceof Error && "code" in error && REFUSALS.has(String(error.code))

// ---

const REFUSALS: ReadonlySet<string> = new Set(["EPERM", "EACCES", "EBUSY"])
/** Half a second in all: svc does nothing else meanwhile. */
const MAX_TRIES = 26
const PAUSE_MS = 20
