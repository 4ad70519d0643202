/** Runs svc's own tools for a client: connects confirmations, progress and cancellation, and answers in the client's era. */

import { PeerError } from "../../backend/peer-error.ts"
import { type Answer, resultAnswer } from "../../call/answer.ts"
import { type Client, type Exchange, missingCapability } from "../../call/client.ts"
import { appending } from "../../call/own-tools.ts"
import type { ClientCall, OwnTools } from "../../call/ports.ts"
import type { Scope } from "../../catalog/scope.ts"
import { withDoubles } from "../../lib/json.ts"
import { foreignState, unknownName } from "../../session/relay.ts"
import { asText, isId, isObject, metaOf, notificationText } from "../../wire/message.ts"
import type { Person } from "./tool.ts"
import type { Toolbox } from "./toolbox.ts"

/** Returns the management tools, which only clients of all servers have. `toolbox` returns undefined while there are none. */
export function managementTools(toolbox: () => Toolbox | undefined): OwnTools {
  const toolboxFor = (scope: Scope) => (scope.kind === "aggregate" && !scope.restricted ? toolbox() : undefined)
  const withTools = appending((listed) => [...(toolbox()?.entries ?? []), ...listed])
  return {
    has(name, { client: { scope } }) {
      if (scope.kind === "server" || toolbox()?.names.includes(asText(name)) !== true) return undefined
      return scope.restricted ? "denied" : "offered"
    },
    entries: ({ scope }) => toolboxFor(scope)?.entries ?? [],
    list: (listed, { scope }, view) => (view.lazy || toolboxFor(scope) === undefined ? listed : withTools(listed)),
    run: (call) => runTool(call, toolbox()),
  }
}

// ---

/** Runs the tool of the name in a call. */
function runTool({ request, client, exchange }: ClientCall, toolbox: Toolbox | undefined): Promise<Answer> {
  const { params = {} } = request
  // State that svc has sealed is handled before this point.
  if (params.requestState !== undefined) throw foreignState()
  const { signal } = exchange.cancellation
  const args = isObject(params.arguments) ? withDoubles(params.arguments) : {}
  const token = metaOf(params)?.progressToken
  let progress = 0
  const running = toolbox?.call(asText(params.name), args, {
    person: personOf(client, exchange, signal),
    terminal: undefined,
    signal,
    progress(message) {
      if (!isId(token)) return
      exchange.notify(
        notificationText("notifications/progress", { progressToken: token, progress: ++progress, message }),
      )
    },
  })
  if (running === undefined) throw unknownName("tool", params.name, undefined)
  return running.then((result) => {
    const whole = client.era === "modern" ? { resultType: "complete", ...result } : result
    const answer = resultAnswer(request.id, JSON.stringify(whole))
    return result.isError === true ? { ...answer, outcome: "tool_error" } : answer
  })
}

/** Returns a port to the person at the client, if the client can show a form. client: Elicitation. */
function personOf(client: Client, exchange: Exchange, signal: AbortSignal): Person | undefined {
  if (missingCapability(client.capabilities, "elicitation/create", undefined) !== undefined) return undefined
  return {
    async agrees(message, yes) {
      const requestedSchema = {
        type: "object",
        properties: { confirm: { type: "boolean", title: yes } },
        required: ["confirm"],
      }
      const answer = await exchange
        .ask("elicitation/create", { message, requestedSchema }, signal)
        .catch(ignorePeerError)
      // The form has no default, and only this answer counts: a client that fills in forms itself must not agree for the person.
      return (
        isObject(answer) && answer.action === "accept" && isObject(answer.content) && answer.content.confirm === true
      )
    },
  }
}

/** Ignores an error response of the client, which then has not shown the form. */
function ignorePeerError(error: unknown): undefined {
  if (!(error instanceof PeerError)) throw error
}
