/** Chooses the connection that a request uses. */
import type { Exchange } from "../call/client.ts"
import { methodOf } from "../call/methods.ts"
import type { ClientCall, Target } from "../call/ports.ts"
import { viewFor, waitFor, whenConnected, whenPrepared } from "../call/ready.ts"
import { isOwnProcess } from "../call/task-id.ts"
import { type Route, toolOf } from "../catalog/catalog.ts"
import { isReadOnly } from "../catalog/signature.ts"
import { RequestError } from "../lib/errors.ts"
import { notReadOnly, RelayCaller, unknownName } from "./relay.ts"

/**
 * Returns the connection for a request, or the reason why there is none; a promise only if something is waited for. Rejects with a
 * RequestError if the client may not make this request there.
 */
export function targetFor(call: ClientCall, route: Route): Target | string | Promise<Target | string> {
  const { client, gateway } = call
  const { directory } = gateway
  const era = route.era ?? client.era
  const shared = directory.target(route.id, era)
  if (typeof shared === "string") {
    // The server may have fallen asleep since the request was routed.
    const woken = directory.isAsleep(route.id) ? whenConnected(route.id, call) : undefined
    if (woken === undefined) return shared
    call.span?.event("svc.wake", route.id)
    return woken.then(() => directory.target(route.id, era))
  }
  const { owner } = client
  if (owner !== undefined && isOwnProcess(shared.spec, client)) return dedicatedTarget(shared, owner, call)
  const prepared = shared.peer.era === era ? undefined : whenPrepared(route.id, era, call)
  if (prepared !== undefined) return prepared.then(() => directory.target(route.id, era))
  const { list } = methodOf(call.request.method)
  const lacks = list !== undefined && shared.pair?.lacks(era, list, route.name) === true
  return lacks ? directory.target(route.id) : shared
}

// ---

/**
 * Returns the session's own process, or the reason why there is none. Rejects with a RequestError if that process does not
 * have the tool, or the client may not call it there.
 */
async function dedicatedTarget(shared: Target, owner: Exchange, call: ClientCall): Promise<Target | string> {
  const { request, client, gateway } = call
  const opened = gateway.directory.dedicated(
    shared.spec.id,
    new RelayCaller(shared, { ...call, exchange: owner }),
    new RelayCaller(shared, call),
    client.capabilities,
  )
  const target = await waitFor(opened, call)
  if (request.method !== "tools/call" || typeof target === "string") return target
  const view = viewFor(call)
  const name = request.params?.name
  if (typeof name !== "string" || !view.tools.has(name)) throw unknownName("tool", name, undefined)
  if (call.wrapper !== "read-only") return target
  // The process may describe the tool otherwise than the one that all clients share.
  const tool = toolOf(view, name)
  if (tool === undefined || !isReadOnly(tool)) throw new RequestError("invalid_params", notReadOnly(name))
  return target
}
