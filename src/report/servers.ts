/** Joins the servers in the file with their running instances: one shape for commands, internal tools and REST. */
import type { writtenServers } from "../config/edit.ts"
import { isRemote } from "../config/sections.ts"
import { isSwitchedOff } from "../template/instance.ts"
import type { Params } from "../wire/message.ts"
import { idleStateOf, type ServerState } from "./server-state.ts"
import { type ServerStatus, type Status, worstOf } from "./status.ts"

type WrittenServers = ReturnType<typeof writtenServers>

/** A server of mcp.json. Absent members are unknown, because the server does not run. */
export type DescribedServer = {
  readonly name: string
  /** stdio, http, sse or streamableHttp. */
  readonly type: string
  readonly enabled: boolean
  readonly template: boolean
  readonly status: ServerStatus["status"]
  readonly state: ServerState
  readonly tools?: number
  readonly hiddenTools?: number
  readonly healthy?: boolean
  readonly tags: readonly string[]
  /** Why it is not healthy. */
  readonly lastError?: string
  /** The running server: one entry, or one for each instance of a template. */
  readonly instances: readonly ServerStatus[]
}

/**
 * Joins servers with the status of the running svc; `status` is undefined if none runs. The worst instance represents a
 * server.
 */
export function describeServers(written: WrittenServers, status: Status | undefined): readonly DescribedServer[] {
  return [...written].map(([name, { section, server }]) => {
    const instances = status?.servers.filter((one) => one.name === name) ?? []
    const enabled = !isSwitchedOff(name, section, server)
    const shown = worstOf(instances)
    const state = enabled ? (shown?.state ?? idleStateOf(name, status)) : "disabled"
    const lastError = shown?.lastError ?? status?.invalid[name] ?? status?.unowned?.[name]
    return {
      name,
      type: shown?.type ?? writtenType(server),
      enabled,
      template: section === "mcpTemplates",
      status: shown?.status ?? (state === "invalid" || state === "not loaded" ? "error" : "disconnected"),
      state,
      ...(shown?.tools === undefined ? {} : { tools: shown.tools }),
      ...(shown?.hiddenTools === undefined ? {} : { hiddenTools: shown.hiddenTools }),
      ...(shown === undefined ? {} : { healthy: shown.healthy }),
      tags: Array.isArray(server.tags) ? server.tags.map(String) : [],
      ...(lastError === undefined ? {} : { lastError }),
      instances,
    }
  })
}

/** Returns the servers of a running svc in the form of the file, for a file that is broken: the last valid plan still runs. */
export function runningServers({ servers, templates, disabled }: Status): WrittenServers {
  const running: readonly (readonly [string, { readonly section: string; readonly server: Params }])[] = [
    ...servers.map(({ name, type, tags }) => [name, { section: "mcpServers", server: { type, tags } }] as const),
    ...templates.map((name) => [name, { section: "mcpTemplates", server: {} }] as const),
    ...disabled.map((name) => [name, { section: "mcpServers", server: { disabled: true } }] as const),
  ]
  return new Map(running)
}

// ---

function writtenType(server: Params): string {
  if (typeof server.type === "string") return server.type
  return isRemote(server) ? "http" : "stdio"
}
