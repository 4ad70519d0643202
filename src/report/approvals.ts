/** The tools whose definition has changed since a person approved it or svc first saw it, with what has changed. */
import type { Agent } from "../agent/agent.ts"
import { diffDefinitions } from "../catalog/definition-diff.ts"
import { isSuspicious } from "../catalog/fingerprint.ts"
import type { ListingEntry } from "../catalog/listing.ts"
import { RequestError } from "../lib/errors.ts"
import type { DiffLine } from "../lib/line-diff.ts"

export type Approval = {
  readonly server: string
  /** Of a template: its instance. */
  readonly instance?: string
  /** The server's own name of the tool. */
  readonly tool: string
  /** Whether it is kept from clients until it is approved. */
  readonly held: boolean
  /** Whether a text of it contains invisible characters. */
  readonly suspicious: boolean
  /** Of the definition now. */
  readonly hash: string
  /** What a model reads of it now. */
  readonly definition: ListingEntry
  /** What a model read of it before; undefined if svc has kept only the hash of that. */
  readonly before?: ListingEntry
  /** The lines of both definitions; without the one before, all lines are added ones. */
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
 * Approves one changed tool of a server, or all of them; with `hash` only the definition that has it. Returns their names.
 * Throws a RequestError (conflict) if the definition now is another one.
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
      `${tool ?? "the tools"} of ${server} changed again, or ${tool === undefined ? "need" : "needs"} no approval: look at the changes once more`,
    )
  return approved
}
