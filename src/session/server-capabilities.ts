/** Builds the results of `initialize` and `server/discover`, for the aggregate and for one server. */

import { REPLICA } from "../call/client.ts"
import type { ClientCall, Gateway } from "../call/ports.ts"
import { refuseStopping } from "../call/ready.ts"
import { type View, viewOf } from "../catalog/catalog.ts"
import { aggregateInstructions } from "../catalog/instructions.ts"
import { withoutServerInfo } from "../catalog/listing.ts"
import type { Scope } from "../catalog/scope.ts"
import { BackendError } from "../lib/errors.ts"
import {
  type Era,
  LEGACY_VERSIONS,
  META_SERVER_INFO,
  MODERN_VERSIONS,
  SKILLS_EXTENSION,
  TASKS_EXTENSION,
  UI_EXTENSION,
} from "../wire/era.ts"
import { isObject, metaOf, type Params } from "../wire/message.ts"
import { unitedSkills } from "./skills.ts"

type About = Pick<ClientCall, "gateway" | "client">

/** Returns the result of `initialize`. lifecycle: Initialization. Throws an UnavailableError if svc stops. */
export function initializeResult(about: About): Params {
  refuseStopping(about.gateway)
  const { capabilities, serverInfo, instructions, members } = introduce(about)
  return {
    ...withoutServerInfo(members),
    protocolVersion: about.client.protocolVersion,
    capabilities,
    serverInfo,
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** Returns the result of `server/discover`. server: Discovery. */
export function discoverResult(about: About): Params {
  const { capabilities, serverInfo, instructions, members } = introduce(about)
  return {
    ...members,
    resultType: "complete",
    supportedVersions: [...MODERN_VERSIONS, ...LEGACY_VERSIONS],
    capabilities,
    ...(instructions === undefined ? {} : { instructions }),
    ttlMs: 0,
    cacheScope: "private",
    _meta: { ...metaOf(members), [META_SERVER_INFO]: serverInfo },
  }
}

/** Returns the capabilities that a backend stated on the connection that serves a client. */
export function peerFor({ spec, listing }: View["parts"][number], { gateway, client }: About): BackendCapabilities {
  const target = gateway.directory.target(spec.id, client.era)
  return servedTo({ gateway, client }, spec.id, typeof target === "string" ? listing : target.peer)
}

/** Returns the instructions of the aggregate that clients of a scope receive. */
export const aggregateInstructionsFor = (
  scope: Scope,
  view: View,
  { directory, limits }: Gateway,
): string | undefined =>
  aggregateInstructions(view, directory.unavailable(scope), limits.instructions, view.instructions)

type BackendCapabilities = { readonly era: Era; readonly capabilities: Params }

// ---

/** Returns the capabilities of a backend for a client. Legacy tasks of a server on another replica are requested from that replica. */
function servedTo({ client, gateway }: About, id: string, peer: BackendCapabilities): BackendCapabilities {
  const { era } = client
  const { capabilities } = peer
  const isForwarded = era === "legacy" && isObject(capabilities.tasks) && gateway.directory.runnerOf(id) !== undefined
  return isForwarded ? { era, capabilities } : peer
}

type Introduction = {
  readonly capabilities: Params
  readonly serverInfo: Params
  readonly instructions: string | undefined
  /** Further members that a single server states. */
  readonly members: Params
}

function introduce({ gateway, client }: About): Introduction {
  const { scope } = client
  const view = viewOf(gateway.directory.catalogOf(client.session), scope)
  if (scope.kind === "aggregate")
    return {
      capabilities: aggregateCapabilities(
        view.parts.map((part) => peerFor(part, { gateway, client })),
        client.era,
      ),
      serverInfo: { name: "svc", title: "svc", version: gateway.version },
      instructions: aggregateInstructionsFor(scope, view, gateway),
      members: {},
    }
  const target = gateway.directory.target(scope.id, client.era)
  if (typeof target === "string") throw new BackendError(scope.id, target)
  const { peer } = target
  return {
    capabilities: Object.assign(
      {},
      ...gateway.ownTools.map((own) => own.capabilities?.(client, view)),
      translate(servedTo({ gateway, client }, scope.id, peer), client.era),
      // Its legacy clients call here what they call as a task.
      client.principal === REPLICA && peer.era === "legacy" && isObject(peer.capabilities.tasks)
        ? { tasks: peer.capabilities.tasks }
        : {},
    ),
    // Legacy clients require a name and a version; modern servers need not state them.
    serverInfo: { name: target.spec.name, version: "unknown", ...peer.serverInfo },
    instructions: view.instructions,
    members: peer.members ?? {},
  }
}

/** Advertises everything that a backend may offer later, because clients read capabilities only when they connect. */
function aggregateCapabilities(peers: readonly BackendCapabilities[], era: Era): Params {
  const all = peers.map((peer) => translate(peer, era))
  const extensions: Record<string, unknown> = {}
  for (const capabilities of all)
    for (const [name, settings] of membersOf(capabilities.extensions))
      if (ROUTED.has(name)) extensions[name] ??= settings
  const skills = unitedSkills(all)
  const tasks = all.flatMap((capabilities) => (isObject(capabilities.tasks) ? [capabilities.tasks] : []))
  return {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    completions: {},
    ...(era === "legacy" || all.some(({ logging }) => logging !== undefined) ? { logging: {} } : {}),
    ...(tasks.length > 0 ? { tasks: uniteTasks(tasks) } : {}),
    ...(skills !== undefined || Object.keys(extensions).length > 0
      ? { extensions: { ...extensions, ...(skills === undefined ? {} : { [SKILLS_EXTENSION]: skills }) } }
      : {}),
  }
}

/** Unites the task capabilities of all backends; svc itself keeps the list. 2025-11-25: Tasks, Capabilities. */
function uniteTasks(all: readonly Params[]): Params {
  const requests: Record<string, Params> = {}
  for (const tasks of all)
    for (const [kind, methods] of membersOf(tasks.requests))
      requests[kind] = { ...requests[kind], ...Object.fromEntries(membersOf(methods)) }
  return { list: {}, ...(all.some(({ cancel }) => cancel !== undefined) ? { cancel: {} } : {}), requests }
}

const membersOf = (value: unknown): readonly (readonly [string, unknown])[] =>
  isObject(value) ? Object.entries(value) : []

/**
 * Extensions that work at the aggregate: apps need only resources, and task ids name their backend. Methods of other extensions
 * do not identify a backend.
 */
const ROUTED: ReadonlySet<string> = new Set([UI_EXTENSION, TASKS_EXTENSION])

/**
 * Translates a backend's capabilities for a client's era. svc itself implements `listChanged` and subscriptions. Each era has
 * its own form of tasks.
 */
function translate(backend: BackendCapabilities, era: Era): Params {
  const { capabilities } = backend
  const changed: Record<string, unknown> = { ...capabilities }
  for (const kind of ["tools", "prompts", "resources"])
    if (isObject(changed[kind])) changed[kind] = { ...changed[kind], listChanged: true }
  if (era === "modern" || backend.era === "modern") delete changed.tasks
  if ((era === "legacy" || backend.era === "legacy") && isObject(changed.extensions)) {
    const { [TASKS_EXTENSION]: _tasks, ...extensions } = changed.extensions
    changed.extensions = extensions
  }
  return changed
}
