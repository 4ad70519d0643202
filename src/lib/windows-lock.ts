/**
 * Retries file operations on Windows, which refuses to move or remove a file while a virus scanner, an indexer or a reader
 * has it open, mostly for a moment. Other systems do not refuse.
 */

/** Runs `act`, and again while a lock refuses it, for half a second at most. Throws the last error. */
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

/** Whether an error may mean that another process has the file open. */
export const isWindowsLock = (error: unknown, platform: string = process.platform): boolean =>
  platform === "win32" && error instanceof Error && "code" in error && REFUSALS.has(String(error.code))

// ---

const REFUSALS: ReadonlySet<string> = new Set(["EPERM", "EACCES", "EBUSY"])
/** Half a second in all: the retries block the process. */
const MAX_TRIES = 26
const PAUSE_MS = 20
