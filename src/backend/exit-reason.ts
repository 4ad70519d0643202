/** Finds the line of a child's stderr that explains why it exited: an exit code alone explains little. */
import type { Clock } from "../lib/clock.ts"

/** Keeps the last lines of a child's stderr, which the caller must redact. */
export class ExitReason {
  private lines: { readonly line: string; readonly at: number }[] = []

  constructor(private readonly clock: Clock) {}

  observe(line: string): void {
    this.lines.push({ line, at: this.clock.now() })
    if (this.lines.length > MAX_LINES) this.lines = this.lines.slice(-KEPT_LINES)
  }

  /** Returns the line of the last ten seconds that explains an exit now, if there is one. */
  reason(): string | undefined {
    const since = this.clock.now() - RECENT_MS
    const picked = pickReason(this.lines.filter(({ at }) => at >= since).map(({ line }) => line))
    return picked === undefined ? undefined : withRemedy(picked)
  }
}

/**
 * Returns the error of the last traceback of Python; else the last line of the form `TypeError: …`, because a crash writes
 * its error last, after the source line that threw it; else the first line that names an error, preferably not a warning; else
 * the last line. Skips indented lines: they explain another line. Pure.
 */
export function pickReason(lines: readonly string[]): string | undefined {
  const plain = lines.map((line) => line.replace(GROUP_MARGIN, ""))
  const traceback = plain.findLastIndex((line) => TRACEBACK.test(line))
  const raised = traceback < 0 ? undefined : plain.slice(traceback + 1).find((line) => /^\S/.test(line))
  const candidates = plain.filter((line) => /^\S/.test(line) && !NOISE.test(line))
  const errors = candidates.filter((line) => ERROR.test(line))
  const picked =
    raised ??
    candidates.findLast((line) => THROWN.test(line)) ??
    errors.find((line) => !WARNING.test(line)) ??
    errors[0] ??
    candidates.at(-1)
  return picked === undefined || picked.length <= MAX_LENGTH ? picked : `${picked.slice(0, MAX_LENGTH)}…`
}

// ---

/** Returns the error of a common program with what to do about it; any other line as it is. Pure. */
function withRemedy(line: string): string {
  const missing = NPM_MISSING.exec(line)
  if (missing !== null) {
    const [, host = "", name = ""] = missing
    return `${host} has no npm package named ${name.replace(/%2f/i, "/")}, or it is private: correct its name (npm error 404)`
  }
  const remedy = REMEDIES.find(([error]) => error.test(line))?.[1]
  return remedy === undefined ? line : `${line.trimEnd().replace(/\.$/, "")}; ${remedy}`
}

const NPM_MISSING =
  /^npm (?:error|ERR!) 404 Not Found - GET https?:\/\/([^/\s]{1,200})\/(?:\S{0,200}\/)?((?:@[^/\s]{1,100}(?:%2f|\/))?[^/\s]{1,200})$/i

/** What helps against errors of npm, uvx, Docker, Python and Node.js. */
const REMEDIES: readonly (readonly [error: RegExp, remedy: string])[] = [
  [/^npm (?:error|ERR!) notarget No matching version found for /, "name another version of the package, or none"],
  [/^npm (?:error|ERR!) .*\bEACCES\b/, "give this user the right to write npm's folders"],
  [
    /^npm (?:error|ERR!) .*\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT)\b/,
    "npm cannot reach its registry: check the network and npm's proxy settings",
  ],
  [/^Error: Cannot find module '\//, "correct the path in the server's args, or build the server first"],
  [/^ModuleNotFoundError: No module named /, "install it for the Python that runs the server"],
  [/was not found in the package registry/, "correct the name of the Python package"],
  [/Cannot connect to the Docker daemon|docker daemon is not running/i, "start Docker"],
  [
    /pull access denied for |manifest unknown|repository does not exist/,
    "correct the name of the image, or log in to its registry",
  ],
]

/** The margin of the tracebacks in an ExceptionGroup of Python. */
const GROUP_MARGIN = /^ {2,40}\| (?=\S)/
const TRACEBACK = /^Traceback \(most recent call last\):/
/** `Error: …`, `TypeError [ERR_X]: …`, `error: …`, `pkg.mod.SomeException: …`. */
const THROWN = /^(?:Uncaught )?(?:[\w$]{1,64}\.){0,8}[\w$]{0,64}(?:error|exception)(?: \[\w{1,64}\])?: \S/i
const ERROR =
  /error|exception|fatal|panic|fail|cannot|could not|unable|unknown|unrecognized|not found|no such|denied|refused|invalid|missing|required/i
/** A process continues after a warning. */
const WARNING = /^(?:npm )?warn/i
/**
 * npm starts with codes of its own and ends with the path of its log; Python and Node.js frame a stack; a key has a frame, and so
 * have texts of help, whose lines svc counts if they are the same.
 */
const NOISE =
  /^npm (?:error|ERR!)(?:$| (?:code|errno|syscall|path) | A complete log)|^Traceback |^Node\.js v|^\^|^-----(?:BEGIN|END) |^[^\p{L}\p{N}]+$|^(?:last line|line ".*") repeated /u
const RECENT_MS = 10_000
const KEPT_LINES = 40
const MAX_LINES = 2 * KEPT_LINES
const MAX_LENGTH = 300
