/** The immutable state of all backends at one moment, which health, status, tools and metrics read. */
import type { Backend, TransportFailure } from "../backend/backend.ts"
import type { UnauthorizedReason } from "../backend/client-transport.ts"
import type { BackendState, ProcessExit } from "../backend/supervision.ts"
import {
  type ContextCharacters,
  countCharacters,
  countTools,
  type ServerPart,
  type ToolCounts,
} from "../catalog/catalog.ts"
import {
  type DefinitionIssue,
  definitionIssues,
  failuresOf,
  knownTools,
  type Listing,
  uniqueByName,
} from "../catalog/listing.ts"
import { unknownOverrides } from "../catalog/tool-settings.ts"
import type { IdleServer, ServerSpec } from "../config/server-spec.ts"
import type { Issue } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import type { PinningFindings } from "./tool-pinning.ts"

export type BackendSnapshot = {
  readonly spec: ServerSpec
  readonly state: BackendState
  /** Whether it has no process until a call needs it: here, or on the replica that runs it. */
  readonly asleep: boolean
  /** Set for an instance of a template. */
  readonly template: string | undefined
  /** Milliseconds since the epoch, like all times here; undefined if it has not happened. */
  readonly lastConnected: number | undefined
  /** Not redacted: the code that shows it must redact it. */
  readonly lastError: string | undefined
  readonly lastExit: ProcessExit | undefined
  /** When the first start began, and when the backend was first connected, failed or refused. */
  readonly loading: { readonly startedAt: number | undefined; readonly endedAt: number | undefined }
  readonly restartCount: number
  /** The last request that the transport failed on the current connection. Not redacted. */
  readonly lastTransportFailure: TransportFailure | undefined
  /** When the last ping was answered or given up. */
  readonly lastPing: number | undefined
  /** False if the last ping was not answered in time. */
  readonly responsive: boolean
  /** Names of tools whose definition has changed since they were first seen. */
  readonly changedTools: readonly string[]
  /** Names of tools whose descriptions contain invisible characters. */
  readonly suspiciousTools: readonly string[]
  /** Present while connected or asleep. */
  readonly listed: ListedFacts | undefined
  /** The size of its part of the catalog, and warnings about that part; undefined while the backend is not connected. */
  readonly offer:
    | {
        readonly characters: ContextCharacters
        readonly warnings: readonly string[]
        /** What svc repaired and left out. */
        readonly definitions: readonly DefinitionIssue[]
      }
    | undefined
  /** Where a person authorizes svc, while that is needed. Shown at level `full` only. */
  readonly authorizationUrl: string | undefined
  /** What it wants, if it is unauthorized. */
  readonly refusal: UnauthorizedReason
  /** Whether the current process has printed text on stdout that is not MCP. */
  readonly noisy: boolean
  /** Its first message that was not valid MCP. */
  readonly invalid: string | undefined
}

/** What a connected backend offers. Tools that svc hides from clients are counted separately. */
export type ListedFacts = ToolCounts & {
  readonly era: Era
  readonly protocolVersion: string
  readonly prompts: number
  readonly resources: number
  readonly resourceTemplates: number
  /** Lists that fail, each with its reason. */
  readonly failing: readonly string[]
  /** Names in `toolDescriptionOverrides` and `toolOverrides` that no tool has. */
  readonly unknownOverrides: readonly string[]
}

export type Snapshot = {
  /** When the process started. */
  readonly startedAt: number
  /** False until a configuration has been loaded for the first time. */
  readonly loaded: boolean
  /** False while svc, at its start, does not know yet which replica runs each server with `"replicas": "one"`. */
  readonly isPlaced: boolean
  readonly backends: readonly BackendSnapshot[]
  /** Names of the templates that can have instances. */
  readonly templates: readonly string[]
  readonly disabled: readonly string[]
  /** The enabled servers that run on one replica of the cluster at a time, while no replica runs them. */
  readonly unowned: readonly IdleServer[]
  readonly issues: readonly Issue[]
  /** Grows with each published change of the catalog. */
  readonly generation: number
}

/** Returns the configured servers that svc leaves out because of an error, each with the error's message. Not redacted. */
export function rejectedServers({ backends, templates, disabled, issues }: Snapshot): ReadonlyMap<string, string> {
  const known = new Set([...backends.map(({ spec }) => spec.name), ...templates, ...disabled])
  return new Map(
    issues.flatMap(({ server, severity, message }) =>
      severity === "error" && server !== undefined && !known.has(server) ? [[server, message] as const] : [],
    ),
  )
}

/** Describes a backend at this moment. */
export function describeBackend(
  { spec, state, facts, listing }: Backend,
  findings: PinningFindings | undefined,
  part: ServerPart | undefined,
  asleep: boolean,
): BackendSnapshot {
  const { lastConnected, lastError, lastExit, restartCount, authorizationUrl } = facts
  const { lastTransportFailure, lastPing, responsive } = facts
  return {
    spec,
    state,
    asleep,
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
    refusal: facts.refusal,
    noisy: facts.noisy,
    invalid: facts.invalid,
    changedTools: findings?.changed ?? [],
    suspiciousTools: findings?.suspicious ?? [],
    offer:
      listing === undefined || part === undefined
        ? undefined
        : { characters: countCharacters(part), warnings: part.warnings, definitions: definitionIssues(listing) },
    listed: listing === undefined ? undefined : describeListing(spec, listing, findings),
  }
}

/** Describes what a backend's listing offers to clients. */
export function describeListing(
  spec: ServerSpec,
  listing: Listing,
  findings: PinningFindings | undefined,
): ListedFacts {
  const { era, protocolVersion, prompts, resources, resourceTemplates } = listing
  const { quarantined } = findings ?? {}
  return {
    era,
    protocolVersion,
    ...countTools({ spec, listing, ...(quarantined === undefined ? {} : { quarantined }) }),
    prompts: uniqueByName(prompts).length,
    resources: resources.length,
    resourceTemplates: resourceTemplates.length,
    failing: failuresOf(listing),
    unknownOverrides: unknownOverrides(spec, knownTools(listing)),
  }
}

/** Whether a connected backend offers clients nothing, though no list of it fails. */
export const offersNothing = ({ tools, prompts, resources, resourceTemplates, failing }: ListedFacts): boolean =>
  tools + prompts + resources + resourceTemplates + failing.length === 0
