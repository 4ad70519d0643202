/**
 * Offers the tools of lazy views: they search and describe tools, and run them. Small, because every session uses it; the search
 * is loaded by the first call. choice: Views.
 */

import type { Agent } from "../../agent/agent.ts"
import { appending } from "../../call/own-tools.ts"
import type { OwnTools } from "../../call/ports.ts"
import { viewFor } from "../../call/ready.ts"
import type { Clock } from "../../lib/clock.ts"
import { delay } from "../../lib/clock.ts"
import { isObject } from "../../wire/message.ts"
import { innerParams, unwrapCall } from "./lazy-call.ts"
import { isLazyTool, isWrapper, LAZY_TOOLS } from "./lazy-tools.ts"
import type { OpenFinder, ToolFinder } from "./tool-finder.ts"

/** Returns a function that opens one search over the tools of an agent, and indexes its long listings in pieces. */
export function openFinder(agent: Pick<Agent, "catalog">, clock: Clock): OpenFinder {
  let finder: Promise<ToolFinder> | undefined
  return async () => {
    finder ??= import("./tool-finder.ts").then((found) => new found.ToolFinder())
    const loaded = await finder
    await loaded.prepare(agent, () => delay(clock, 0))
    return loaded
  }
}

/** Returns the tools of lazy views. */
export function searchTools(finder: OpenFinder): OwnTools {
  const withSearch = appending((listed) => [
    ...LAZY_TOOLS,
    // A call by one of these names runs svc's tool.
    ...listed.filter((entry) => !isLazyTool(nameIn(entry))),
  ])
  const loaded = () => import("./lazy-answers.ts")
  return {
    has(name, { client, wrapper }, view) {
      if (!isLazyTool(name)) return undefined
      // At its own address, a server may have tools with these names; clients call them through `call_tool`.
      const isOwn = wrapper === undefined ? view.lazy : client.scope.kind === "aggregate"
      return isOwn ? "offered" : undefined
    },
    entries: () => [],
    list: (listed, _client, view) => (view.lazy ? withSearch(listed) : listed),
    run: (call, view) => loaded().then(({ answerLazyTool }) => answerLazyTool(call, view, finder)),
    unwrap: unwrapCall,
    innerParams: (params) => (isWrapper(params.name) ? innerParams(params.arguments) : undefined),
    async around(call, view, next) {
      const { explained, refuseWrites } = await loaded()
      const refusal = await refuseWrites(call, view, finder)
      if (refusal !== undefined) return refusal
      const answer = await next()
      // A server that has woken for this call may have listed other tools since.
      return explained(call, viewFor(call), answer)
    },
    unknown: (call, view) =>
      view.lazy ? loaded().then(({ answerUnknownTool }) => answerUnknownTool(call, view, finder)) : undefined,
  }
}

// ---

function nameIn(entry: string): unknown {
  const tool: unknown = JSON.parse(entry)
  return isObject(tool) ? tool.name : undefined
}
