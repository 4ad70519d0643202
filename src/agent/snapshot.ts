/** The facts of one moment, immutable: what every observer (health, status, tools, metrics) reads. */
import type { Backend, TransportFailure } from "../backend/backend.ts"
import type { BackendState, ProcessExit } from "../backend/supervision.ts"
import { failuresOf } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Issue } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import type { PinningFindings } from "./tool-pinning.ts"

export type BackendSnapshot = {
  readonly spec: ServerSpec
  readonly state: BackendState
  /** Set for an instance of a template. */
  readonly template: string | undefined
  /** Milliseconds since the epoch, as all times here; undefined where it has not happened. */
  readonly lastConnected: number | undefined
  /** Not redacted; the exits do that. */
  readonly lastError: string | undefined
  readonly lastExit: ProcessExit | undefined
  /** The first start: when loading of this backend began and when it was first connected, failed or refused. */
  readonly loading: { readonly startedAt: number | undefined; readonly endedAt: number | undefined }
  readonly restartCount: number
  /** The last request that the transport failed on the current connection. Not redacted. */
  readonly lastTransportFailure: TransportFailure | undefined
  /** When the last ping was answered or given up. */
  readonly lastPing: number | undefined
  /** False when the last ping was not answered in time. */
  readonly responsive: boolean
  /** Tools that are not what they were when they were first seen. */
  readonly changedTools: readonly string[]
  /** Tools whose words hold characters that nobody sees. */
  readonly suspiciousTools: readonly string[]
  /** Present while connected. */
  readonly listed:
    | {
        readonly era: Era
        readonly protocolVersion: string
        readonly tools: number
        readonly prompts: number
        readonly resources: number
        readonly resourceTemplates: number
        /** Lists that fail, each with its reason. */
        readonly failing: readonly string[]
      }
    | undefined
  /** Where a person must go, while unauthorized. Shown at level `full` only. */
  readonly authorizationUrl: string | undefined
}

export type Snapshot = {
  /** When the process started. */
  readonly startedAt: number
  /** False until a configuration has been loaded for the first time. */
  readonly loaded: boolean
  readonly backends: readonly BackendSnapshot[]
  /** Names of templates that can have instances. */
  readonly templates: readonly string[]
  readonly disabled: readonly string[]
  readonly issues: readonly Issue[]
  /** Grows with each published change of what is offered. */
  readonly generation: number
}

/** Servers that are written down and cannot run for what is wrong there, and what that is. Not redacted. */
export function rejectedServers({ backends, templates, disabled, issues }: Snapshot): ReadonlyMap<string, string> {
  const known = new Set([...backends.map(({ spec }) => spec.name), ...templates, ...disabled])
  return new Map(
    issues.flatMap(({ server, severity, message }) =>
      severity === "error" && server !== undefined && !known.has(server) ? [[server, message] as const] : [],
    ),
  )
}

/** A backend at this moment. */
export function describeBackend(
  { spec, state, facts, published }: Backend,
  findings: PinningFindings | undefined,
): BackendSnapshot {
  const { lastConnected, lastError, lastExit, restartCount, authorizationUrl } = facts
  const { lastTransportFailure, lastPing, responsive } = facts
  const listing = published?.listing
  return {
    spec,
    state,
    template: spec.id === spec.name ? undefined : spec.name,
    lastConnected,
    lastError,
    lastExit,
    loading: { startedAt: facts.loadingStartedAt, endedAt: facts.loadingEndedAt },
    restartCount,
    lastTransportFailure,
    lastPing,
    responsive,
    authorizationUrl,
    changedTools: findings?.changed ?? [],
    suspiciousTools: findings?.suspicious ?? [],
    listed:
      listing === undefined
        ? undefined
        : {
            era: listing.era,
            protocolVersion: listing.protocolVersion,
            tools: listing.tools.length,
            prompts: listing.prompts.length,
            resources: listing.resources.length,
            resourceTemplates: listing.resourceTemplates.length,
            failing: failuresOf(listing),
          },
  }
}
