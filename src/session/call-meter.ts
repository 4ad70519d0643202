/** Counts relayed calls and bytes for the metrics, the activity and the page. */
import { type Answer, bytesOf } from "../call/answer.ts"
import type { Gateway } from "../call/ports.ts"

/**
 * Returns `send` with a count of what it answers, while somebody reads the counts: a watcher may come at any time. The time of a
 * call includes the wait for a connection.
 */
export const metered =
  (send: Gateway["toServer"]): Gateway["toServer"] =>
  (call, params, route) => {
    const { meter } = call.gateway.observers
    if (meter === undefined) return send(call, params, route)
    const { waited: before = 0 } = call
    const started = meter.now()
    const record = (answer: Answer): Answer => {
      meter.passed("out", bytesOf(answer))
      if (call.request.method !== "tools/call") return answer
      const took = meter.now() - started
      const { waited: waiting = 0, atServer: server = 0 } = call
      meter.record({
        server: route.id,
        tool: route.unlisted ? UNLISTED : route.name,
        outcome: answer.outcome,
        seconds: took / 1000,
        parts: { waiting, server, svc: Math.max(0, before + took - waiting - server) },
        call,
        answer,
      })
      return answer
    }
    const answer = send(call, params, route)
    return answer instanceof Promise ? answer.then(record) : record(answer)
  }

// ---

/** The name in metrics of tools that are in no list: clients could fill the metrics with names. */
const UNLISTED = "unlisted"
