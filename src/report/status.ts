/** The status report for commands and assistants: one projection of the snapshot. */

import { type BackendSnapshot, offersNothing, rejectedServers, type Snapshot } from "../agent/snapshot.ts"
import { STATUS_BY_STATE, type StateStatus } from "../backend/supervision.ts"
import { UNRESPONSIVE } from "../backend/unresponsive.ts"
import type { ContextCharacters } from "../catalog/catalog.ts"
import { longList } from "../catalog/client-limits.ts"
import type { DefinitionIssue } from "../catalog/listing.ts"
import { formatIssue } from "../lib/errors.ts"
import { cutText } from "../lib/text.ts"
import { healthOf, listedFacts } from "./health.ts"
import { type ServerState, stateOf } from "./server-state.ts"
import type { SharedStateProblem } from "./shared-state.ts"

/** One server, as `svc mcp status` and `mcp_status` show it. Times are ISO 8601; texts are redacted. */
export type ServerStatus = {
  readonly name: string
  readonly id: string
  readonly type: string
  readonly state: ServerState
  readonly status: StateStatus["status"]
  /** As in `/health`. */
  readonly healthy: boolean
  readonly tags: readonly string[]
  readonly pid?: number
  /** When the server connected, or began to start. */
  readonly since?: string
  readonly attempt?: number
  readonly nextRetryAt?: string
  readonly restarts: number
  readonly protocolVersion?: string
  readonly era?: string
  /** The tools that svc offers to clients. */
  readonly tools?: number
  /** The tools that `disabledTools` or a quarantine hides from clients. */
  readonly hiddenTools?: number
  readonly prompts?: number
  readonly resources?: number
  /** Set if the server is connected and offers nothing. */
  readonly empty?: true
  /** The characters of the server's list of tools and of its instructions, which a client adds to its context. */
  readonly characters?: ContextCharacters
  /** What svc repaired and left out of its handshake and lists. `warnings` has these too, alike ones together. */
  readonly definitions?: readonly DefinitionIssue[]
  /** Parts of its offer that svc repaired or left out, or that clients reject or truncate. */
  readonly warnings?: readonly string[]
  /** What the running server sends that is not MCP: text on stdout, and its first invalid message. */
  readonly protocolErrors?: readonly string[]
  /** Names in `toolDescriptionOverrides` and `toolOverrides` that no tool has. */
  readonly unknownOverrides?: readonly string[]
  /** Why the server is degraded: lists that fail, pings without an answer. */
  readonly issues?: readonly string[]
  /** Tools with a definition that differs from the pinned one. */
  readonly changedTools?: readonly string[]
  /** Tools with invisible characters in their texts. */
  readonly suspiciousTools?: readonly string[]
  /** Why the server is not healthy. Past errors of a healthy server are left out. */
  readonly lastError?: string
  /** When the last ping was answered or given up. svc pings a server that is idle. */
  readonly lastPing?: string
  readonly authorizationUrl?: string
  /** The projects for which an instance of a template runs. Only the operator sees them. */
  readonly projects?: readonly string[]
  /** The sizes of results, for the tools with the largest results. */
  readonly results?: readonly ToolResultSizes[]
}

/** The sizes of one tool's results in bytes. A percentile is the upper end of its bucket, at most 19 % too large. */
export type ToolResultSizes = {
  readonly server: string
  readonly tool: string
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly largest: number
  /** How many results exceeded a budget, so that only a part was returned. */
  readonly cut: number
}

/** Reports the sizes of the results of all tools, or of one server's, the largest 99th percentile first. */
export type ReportedSizes = { report(server?: string): readonly ToolResultSizes[] }

export type Status = {
  readonly servers: readonly ServerStatus[]
  /** Names of templates that can have instances. */
  readonly templates: readonly string[]
  readonly disabled: readonly string[]
  /** The servers that do not run because of an error in the configuration, by name, with the error. */
  readonly invalid: Readonly<Record<string, string>>
  /** The servers that run on one replica of a cluster at a time, while no replica runs them, by name, with the reason. */
  readonly unowned?: Readonly<Record<string, string>>
  /** Set while this replica of a cluster cannot use the shared state. */
  readonly sharedState?: SharedStateProblem
  readonly issues: readonly string[]
  /** Parts of the whole offer that clients reject or truncate. */
  readonly warnings: readonly string[]
  readonly loaded: boolean
  /** Set if svc serves its demo in place of the configuration. */
  readonly demo?: true
}

/** Adds the sizes of results to a status report. */
export const withResultSizes = ({ servers, ...rest }: Status, sizes: ReportedSizes): Status => ({
  ...rest,
  servers: servers.map((server) => {
    const results = sizes.report(server.id).slice(0, MAX_SIZES)
    return results.length === 0 ? server : { ...server, results }
  }),
})

/** Adds to the instances of templates the projects for which they run. */
export const withProjects = ({ servers, ...rest }: Status, projectsOf: (id: string) => readonly string[]): Status => ({
  ...rest,
  servers: servers.map((server) => {
    const projects = projectsOf(server.id)
    return projects.length === 0 ? server : { ...server, projects }
  }),
})

/** Returns the status report at the time `now`; `clean` redacts the text of errors. */
export function statusOf(snapshot: Snapshot, now: number, clean: (text: string) => string): Status {
  const iso = (time: number) => new Date(time).toISOString()
  return {
    loaded: snapshot.loaded,
    templates: snapshot.templates,
    disabled: snapshot.disabled,
    invalid: Object.fromEntries(
      [...rejectedServers(snapshot)].map(([name, error]) => [
        name,
        clean(error.replace(`${name} is not loaded: `, "")),
      ]),
    ),
    ...(snapshot.unowned.length === 0
      ? {}
      : { unowned: Object.fromEntries(snapshot.unowned.map(({ name, reason }) => [name, reason])) }),
    issues: snapshot.issues.map(formatIssue),
    // Leaves out instances of templates, which only their own clients see.
    warnings: longList(
      snapshot.backends.reduce(
        (sum, { template, listed }) => sum + (template === undefined ? (listed?.tools ?? 0) : 0),
        0,
      ),
    ),
    servers: snapshot.backends.map((backend) => {
      const { spec, state, listed, offer, lastPing, restartCount, authorizationUrl, ...found } = backend
      const issues = issuesOf(backend).map(clean)
      const protocolErrors = protocolErrorsOf(backend)
      const health = healthOf(backend, now)
      return {
        name: spec.name,
        id: spec.id,
        type: spec.launch.transport,
        state: stateOf(backend, now),
        status: STATUS_BY_STATE[state.kind].status,
        healthy: health.healthy,
        ...(backend.asleep ? { asleep: true as const } : {}),
        tags: spec.tuning.tags,
        restarts: restartCount,
        ...("pid" in state && state.pid !== undefined ? { pid: state.pid } : {}),
        ...("since" in state ? { since: iso(state.since) } : {}),
        ...("attempt" in state && state.attempt > 0 ? { attempt: state.attempt } : {}),
        ...(state.kind === "waiting" ? { nextRetryAt: iso(state.retryAt) } : {}),
        ...listedFacts(listed),
        ...(listed !== undefined && offersNothing(listed) ? { empty: true as const } : {}),
        ...(offer === undefined ? {} : { characters: offer.characters }),
        ...(offer === undefined || offer.definitions.length === 0 ? {} : { definitions: offer.definitions }),
        ...(offer === undefined || offer.warnings.length === 0 ? {} : { warnings: offer.warnings }),
        ...(protocolErrors.length === 0 ? {} : { protocolErrors }),
        ...(listed !== undefined && listed.unknownOverrides.length > 0
          ? { unknownOverrides: listed.unknownOverrides }
          : {}),
        ...(issues.length > 0 ? { issues } : {}),
        ...(found.changedTools.length > 0 ? { changedTools: found.changedTools } : {}),
        ...(found.suspiciousTools.length > 0 ? { suspiciousTools: found.suspiciousTools } : {}),
        ...(health.healthy || health.reason === undefined ? {} : { lastError: clean(health.reason) }),
        ...(lastPing === undefined ? {} : { lastPing: iso(lastPing) }),
        ...(authorizationUrl === undefined ? {} : { authorizationUrl }),
      }
    }),
  }
}

/** Returns what a server sends that is not MCP. */
const protocolErrorsOf = ({ noisy, invalid }: Pick<BackendSnapshot, "noisy" | "invalid">): readonly string[] => [
  ...(noisy ? [NOISY] : []),
  ...(invalid === undefined ? [] : [cutText(invalid, MAX_INVALID)]),
]

const NOISY = "prints text on stdout that is not MCP (logs belong on stderr)"
/** Enough of a message to find it in the log. */
const MAX_INVALID = 200

/** Returns the instance that represents a server: one that is not connected, else not healthy, else degraded, else the first. */
export const worstOf = (instances: readonly ServerStatus[]): ServerStatus | undefined =>
  instances.find((one) => one.status !== "connected") ??
  instances.find((one) => !one.healthy) ??
  instances.find((one) => one.issues !== undefined) ??
  instances[0]

// ---

/** The most tools of a server for which the sizes of results are shown. */
const MAX_SIZES = 5

/** Returns the problems of a connected server. */
const issuesOf = ({ listed, responsive }: BackendSnapshot): readonly string[] =>
  listed === undefined ? [] : [...listed.failing, ...(responsive ? [] : [UNRESPONSIVE])]
