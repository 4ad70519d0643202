/**
 * The only place where a request waits for servers: for the initial load, then for the server that it names if that server is
 * starting, is reconnecting, or has not answered its first lists. Routing happens afterwards, with the current catalog.
 */
import { type View, viewOf } from "../catalog/catalog.ts"
import { UnavailableError } from "../lib/errors.ts"
import type { Era } from "../wire/era.ts"
import { destinationOf } from "./destination.ts"
import type { ClientCall, Decided, Gateway } from "./ports.ts"

/**
 * Returns the client's view when the servers that its request needs are available, and records the destination of the request in
 * the call; a promise only if something is waited for. Throws, or rejects with, an UnavailableError if svc stops; rejects with a
 * RequestError as soon as the client cancels the request.
 */
export function ready(call: ClientCall): View | Promise<View> {
  const loaded = whenLoaded(call)
  if (loaded === undefined) return located(call)
  call.span?.event("svc.wait")
  return loaded.then(() => located(call))
}

/** Returns a promise to wait for the initial load; undefined if it is over. Throws and rejects as `ready` does. */
export function whenLoaded(call: WaitingCall): Promise<void> | undefined {
  const { gateway } = call
  refuseStopping(gateway)
  const { initialLoad } = gateway.directory
  return initialLoad === undefined ? undefined : waitFor(initialLoad, call)
}

/** Returns a promise to wait for one server if it is starting or reconnecting; otherwise undefined. Rejects as `ready` does. */
export function whenConnected(id: string, call: WaitingCall): Promise<void> | undefined {
  const { directory } = call.gateway
  const back = directory.takesCalls(id, false) ? undefined : directory.whenBack(id)
  return back === undefined ? undefined : waitFor(back, call)
}

/**
 * Returns a promise to wait for the connection of an era to a server that may support both; undefined if it is open or will not
 * be opened. Rejects as `ready` does.
 */
export function whenPrepared(id: string, era: Era, call: WaitingCall): Promise<void> | undefined {
  const { directory } = call.gateway
  const target = directory.target(id, era)
  if (typeof target === "string" || target.peer.era === era) return undefined
  const prepared = directory.prepare(id, era)
  return prepared === undefined ? undefined : waitFor(prepared, call)
}

/** Throws an UnavailableError if svc is stopping, so that the tools of stopped servers are not reported as unknown. */
export function refuseStopping({ directory }: Pick<Gateway, "directory">): void {
  if (directory.stopping) throw new UnavailableError("svc is shutting down")
}

/** A call, or a message that opens a session, that may have to wait. */
export type WaitingCall = {
  readonly gateway: Gateway
  readonly exchange: Pick<ClientCall["exchange"], "cancellation">
  waited?: number
}

/** Waits, then refuses if svc stops. Rejects with a RequestError as soon as the request is cancelled. */
export async function waitFor<T>(wait: Promise<T>, call: WaitingCall): Promise<T> {
  const { gateway, exchange } = call
  const { meter } = gateway.observers
  const from = meter?.now()
  meter?.waits(1)
  try {
    const value = await exchange.cancellation.race(wait)
    refuseStopping(gateway)
    return value
  } finally {
    // The same one: svc may begin to measure meanwhile.
    meter?.waits(-1)
    if (meter !== undefined && from !== undefined) call.waited = (call.waited ?? 0) + meter.now() - from
  }
}

/** Returns the current view of the client of a call. */
export const viewFor = ({ client, gateway }: Pick<ClientCall, "client" | "gateway">): View =>
  viewOf(gateway.directory.catalogOf(client.session), client.scope)

/** Returns the destination of a call that has waited for a server. */
export function decidedAfter(call: ClientCall, view: View, id: string): Decided {
  const found = destinationOf(call, view, true)
  return decided(call, found.kind === "own" ? found : { ...found, waitedFor: id })
}

// ---

function located(call: ClientCall): View | Promise<View> {
  const { directory } = call.gateway
  const view = viewFor(call)
  const found = destinationOf(call, view)
  if (found.kind !== "waiting") {
    decided(call, found)
    return view
  }
  const back = directory.whenBack(found.for)
  const settled = () => {
    const now = viewFor(call)
    decidedAfter(call, now, found.for)
    return now
  }
  if (back === undefined) return settled()
  call.span?.event(directory.isAsleep(found.for) ? "svc.wake" : "svc.wait", found.for)
  return waitFor(back, call).then(settled)
}

/** Records the destination of a call for those who report it. */
function decided(call: ClientCall, destination: Decided): Decided {
  call.destination = destination
  return destination
}
