/** Returns the texts that clients of a scope receive, so that `svc tokens` can count them. */
import { listedTools, ownEntries } from "../call/own-tools.ts"
import { partTools, viewOf } from "../catalog/catalog.ts"
import { scopeIncludes } from "../catalog/scope.ts"
import type { ToolListing } from "../config/tool-listing.ts"
import { aggregateInstructionsFor } from "../session/server-capabilities.ts"
import type { Params } from "../wire/message.ts"
import type { Runtime } from "./runtime.ts"

/** The texts that clients of one scope receive, by server; tools are JSON texts of list entries. */
export type ContextOffer = {
  readonly servers: readonly OfferedServer[]
  /** The instructions of all servers together, as clients receive them. */
  readonly instructions: string
  /** Names of the servers that are not counted because their first start is still under way. */
  readonly starting: readonly string[]
  /** The same for a lazy view. */
  readonly lazy: { readonly tools: readonly string[]; readonly instructions: string }
}

type OfferedServer = {
  readonly name: string
  readonly tools: readonly string[]
  /** The server's own instructions, whole. */
  readonly instructions: string
}

/**
 * Returns the offer of a preset, or of all servers, once svc has tried to connect each server, or after `wait` milliseconds.
 * Rejects with a RequestError for an unknown preset.
 */
export async function contextOffer(
  { agent, scopeOf, mcp: { gateway } }: Runtime,
  { preset }: Params,
  wait: number,
): Promise<ContextOffer> {
  await agent.whenLoaded(undefined, wait)
  const chosen = typeof preset === "string" ? `&preset=${encodeURIComponent(preset)}` : ""
  const seen = (tools: ToolListing) => {
    const scope = scopeOf(`?tools=${tools}${chosen}`)
    const view = viewOf(agent.catalog, scope)
    return { scope, view, instructions: aggregateInstructionsFor(scope, view, gateway) ?? "" }
  }
  const [{ scope, view, instructions }, lazy] = [seen("all"), seen("search")]
  const own = ownEntries({ scope, era: "modern" }, view, gateway)
  return {
    servers: [
      ...(own.length === 0 ? [] : [{ name: "svc", tools: own, instructions: "" }]),
      ...view.parts.map((part) => ({
        name: part.spec.name,
        tools: partTools(part, view).map((tool) => JSON.stringify(tool)),
        instructions: part.listing.instructions ?? "",
      })),
    ],
    instructions,
    starting: agent
      .snapshot()
      .backends.flatMap(({ spec, loading: { startedAt, endedAt } }) =>
        startedAt !== undefined && endedAt === undefined && scopeIncludes(scope, spec) ? [spec.name] : [],
      ),
    lazy: {
      tools: listedTools({ scope: lazy.scope, era: "modern" }, lazy.view, gateway),
      instructions: lazy.instructions,
    },
  }
}
