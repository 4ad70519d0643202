/** Reports tools with definitions that differ from the approved or first seen ones, and the differences. */
import type { Agent } from "../agent/agent.ts"
import { diffDefinitions } from "../catalog/definition-diff.ts"
import { isSuspicious } from "../catalog/fingerprint.ts"
import type { ListingEntry } from "../catalog/listing.ts"
import { RequestError } from "../lib/errors.ts"
import type { DiffLine } from "../lib/line-diff.ts"

export type Approval = {
  readonly server: string
  /** The instance, if the server is a template. */
  readonly instance?: string
  /** The server's own name of the tool. */
  readonly tool: string
  /** Whether the tool is hidden from clients until it is approved. */
  readonly held: boolean
  /** Whether a text of the tool contains invisible characters. */
  readonly suspicious: boolean
  /** The hash of the current definition. */
  readonly hash: string
  /** The part of the definition that a model reads, now. */
  readonly definition: ListingEntry
  /** The same part before the change; undefined if svc has stored only its hash. */
  readonly before?: ListingEntry
  /** The lines of both definitions; without `before`, all lines count as added. */
  readonly diff: readonly DiffLine[]
}

/** Returns the changed tools of all servers, or of one. */
export function approvalsOf(agent: Agent, server?: string): readonly Approval[] {
  const backends = server === undefined ? agent.all() : agent.find(server)
  return backends.flatMap((backend) => {
    const { id, name } = backend.spec
    return agent.changedTools(backend).map(({ name: tool, hash, definition, before }) => ({
      server: name,
      ...(id === name ? {} : { instance: id }),
      tool,
      held: agent.isQuarantined(backend, tool),
      suspicious: isSuspicious({ ...definition, name: tool }),
      hash,
      definition,
      ...(before === undefined ? {} : { before }),
      diff: diffDefinitions(before ?? {}, definition),
    }))
  })
}

/**
 * Approves one changed tool of a server, or all; with `hash`, only the definition with that hash. Returns the names of the
 * approved tools. Throws a RequestError (conflict) if the current definition has another hash.
 */
export function approveTools(
  agent: Agent,
  server: string,
  tool: string | undefined,
  hash: string | undefined,
): readonly string[] {
  const approved = agent.approve(server, tool, hash)
  if (hash !== undefined && approved.length === 0)
    throw new RequestError(
      "conflict",
      `${tool ?? "the tools"} of ${server} changed again, or ${tool === undefined ? "need" : "needs"} no approval; review the changes again`,
    )
  return approved
}
