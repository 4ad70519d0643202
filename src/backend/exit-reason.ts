/** What a child said before it ended, as far as it says why: an exit code alone helps nobody. */
import type { Clock } from "../lib/clock.ts"

/** The last lines of a child's stderr, redacted before they come here. */
export type ExitReason = {
  observe(line: string): void
  /** The line that says why, if there is one of the last seconds. */
  reason(): string | undefined
}

export function createExitReason(clock: Clock): ExitReason {
  let heard: { readonly line: string; readonly at: number }[] = []
  return {
    observe(line) {
      heard.push({ line, at: clock.now() })
      if (heard.length > MAX_LINES) heard = heard.slice(-KEPT_LINES)
    },
    reason() {
      const since = clock.now() - RECENT_MS
      return pickReason(heard.filter(({ at }) => at >= since).map(({ line }) => line))
    },
  }
}

/**
 * Of several lines the first that names an error, before those that only warn of it, else the last; what is indented
 * explains another line. Pure.
 */
export function pickReason(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => /^\S/.test(line) && !NOISE.test(line))
  const found =
    said.find((line) => ERROR.test(line) && !WARNING.test(line)) ?? said.find((line) => ERROR.test(line)) ?? said.at(-1)
  return found === undefined || found.length <= MAX_LENGTH ? found : `${found.slice(0, MAX_LENGTH)}…`
}

// ---

const ERROR =
  /error|exception|fatal|panic|fail|cannot|could not|unable|not found|no such|denied|refused|invalid|missing|required/i
/** It goes on after one. */
const WARNING = /^(?:npm )?warn/i
/** npm says first what it means only to itself, and last where its log is. */
const NOISE = /^npm (?:error|ERR!)(?:$| (?:code|errno|syscall|path) | A complete log)|^Traceback |^Node\.js v|^\^/
const RECENT_MS = 10_000
const KEPT_LINES = 40
const MAX_LINES = 2 * KEPT_LINES
const MAX_LENGTH = 300
