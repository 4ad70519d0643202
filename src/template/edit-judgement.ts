/** Judges a change of mcp.json and `.env` before it is written: the same for a person's command, an internal tool and REST. */
import { parseDocument } from "../config/document.ts"
import { type HostEnvironment, isUnset } from "../config/plan.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { planDocument } from "./instance.ts"

export type EditJudgement = {
  /** Why the change must not be written; empty if it may be. */
  readonly refused: readonly Issue[]
  /** The other issues that the change introduces, to be told to whoever makes it. */
  readonly warnings: readonly Issue[]
}

type Texts = { readonly config: string; readonly dotenv: string }

/**
 * Judges the change from one pair of texts to another. An error that it introduces refuses the change. A variable that is not
 * set, which can be set afterwards, refuses it only if a server that svc loads now would no longer be loaded. `world` returns the environment for a text of `.env`, or throws a ConfigError.
 */
export function judgeEdit(before: Texts, after: Texts, world: (dotenv: string) => HostEnvironment): EditJudgement {
  const [old, next] = [planned(before, world), planned(after, world)]
  const known = new Set(old.issues.map(keyOf))
  // The places are left out, because the text to which they refer is not written.
  const introduced = next.issues
    .filter((issue) => !known.has(keyOf(issue)))
    .map(({ file: _file, line: _line, column: _column, ...issue }) => issue)
  const isServerLost = old.loaded.some((name) => !next.loaded.includes(name))
  const isRefused = (issue: Issue) => issue.severity === "error" && (isServerLost || !isUnset(issue.message))
  return {
    // The server stays loaded as it was, because the change is not written.
    refused: introduced.filter(isRefused).map(({ server, message, ...issue }) => ({
      ...issue,
      message: server === undefined ? message : message.replace(`${server} is not loaded: `, ""),
    })),
    warnings: introduced.filter((issue) => !isRefused(issue)),
  }
}

// ---

/** Two servers may have the same message. */
const keyOf = ({ server = "", message }: Issue): string => `${server} ${message}`

function planned(
  { config, dotenv }: Texts,
  world: (dotenv: string) => HostEnvironment,
): { readonly loaded: readonly string[]; readonly issues: readonly Issue[] } {
  const issues: Issue[] = []
  const attempt = <T>(run: () => T): T | undefined => {
    try {
      return run()
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      issues.push(...error.issues)
      return undefined
    }
  }
  // A reload refuses a broken `.env` alone.
  const environment = attempt(() => world(dotenv)) ?? world("")
  const plan = attempt(() => planDocument(parseDocument(config, "mcp.json"), environment).plan)
  if (plan === undefined) return { loaded: [], issues }
  return { loaded: [...plan.specs.map(({ name }) => name), ...plan.templates], issues: [...issues, ...plan.issues] }
}
