/**
 * The stages that a request passes on its way to a server: a list made when svc starts, without those of features that are off. A
 * call passes each stage once, however many rounds of input it takes.
 */
import type { Gateway, Handler, Stage } from "../call/ports.ts"
import { metered } from "./call-meter.ts"
import { limited } from "./limits.ts"
import { relay } from "./relay.ts"
import { targetFor } from "./target.ts"

/**
 * Returns the function that sends a request to its server; `features`: the stages of features, which see only what the limits admit.
 * The meter stands before the choice of the connection, which may have to be waited for. The audit log and the spans are no stages:
 * they also cover requests that go to no server.
 */
export function throughStages(features: readonly Stage[]): Gateway["toServer"] {
  const pass = [limited, ...features].reduceRight<Handler>((next, stage) => stage(next), relay)
  return metered((call, params, route) => {
    const target = targetFor(call, route)
    return target instanceof Promise
      ? target.then((found) => pass(call, { target: found, route, params }))
      : pass(call, { target, route, params })
  })
}
