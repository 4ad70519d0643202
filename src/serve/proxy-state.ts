/**
 * The state machine of a proxied client's connection to the running instance: `step(state, event) -> [state, effects]`.
 * proxy-client.ts runs the effects, and relays the lines.
 *
 *   absent ─connected─▶ … ─welcome─▶ open ─lost─▶ absent, or refused if it refused the last move
 *     │ ▲
 *     │ └─startFailed── starting ─▶ … ─▶ open. starting: an instance is starting for this session.
 *     └─refused─▶ refused ─▶ … ─▶ open. It may accept a later hello: a missing preset may be created.
 *
 * Every state but `open` and `closed` tries to connect, one attempt at a time. The machine is total, and has no clock, no timer and
 * no I/O.
 */

/** An open connection to the instance. */
export type ProxyLink = { send(line: Uint8Array | string): void; close(): void }

export type InstanceConnection = { readonly link: ProxyLink; readonly token: string }

/** How far the next connection is. While greeting, the hello is sent, and nothing else. */
type Attempt =
  | { readonly kind: "none" }
  | { readonly kind: "connecting" }
  | { readonly kind: "greeting"; readonly link: ProxyLink }

type Apart = {
  readonly attempt: Attempt
  /** Whether the next connection follows an earlier one. */
  readonly wasOpen: boolean
  /** Whether the user knows that svc is away. */
  readonly isNoted: boolean
}

export type ProxyState =
  | (Apart & { readonly kind: "absent" | "starting" })
  | (Apart & { readonly kind: "refused"; readonly reason: string })
  /** `refusal` is why the instance refused the last move. */
  | { readonly kind: "open"; readonly link: ProxyLink; readonly refusal: string | undefined }
  | { readonly kind: "closed" }

export type ProxyEvent =
  /** `start`: the session begins. `due`: it is time to try again. `moved`: the client has another project. */
  | { readonly kind: "start" | "due" | "moved" | "welcome" | "lost" | "close" }
  | { readonly kind: "connected"; readonly connection: InstanceConnection }
  /** No instance runs; `isStarting`: this attempt has started one, and has told the user so. */
  | { readonly kind: "unfound"; readonly isStarting: boolean }
  | { readonly kind: "refused" | "startFailed"; readonly reason: string }

/** The effects that the driver must run, in order. */
export type ProxyEffect =
  | { readonly kind: "connect" | "move" | "announce" | "cancelRetry" | "resetBackoff" }
  | { readonly kind: "hello"; readonly connection: InstanceConnection }
  | { readonly kind: "closeLink"; readonly link: ProxyLink }
  | { readonly kind: "note"; readonly text: string }
  /** Sends `due` after a pause. */
  | { readonly kind: "retry"; readonly after: "now" | "backoff" | "refusal" }
  /** Fails the requests that are held; `isLasting`: later ones too, if no instance has answered by then. */
  | { readonly kind: "fail"; readonly reason: string; readonly isLasting: boolean }
  /** Ends the requests that were in flight. */
  | { readonly kind: "endRequests" }
  /** Sends the session to the instance; `isReconnect`: its client has used an earlier one. */
  | { readonly kind: "resume"; readonly isReconnect: boolean }

type Result = readonly [ProxyState, readonly ProxyEffect[]]

export const INITIAL_PROXY: ProxyState = { kind: "absent", attempt: { kind: "none" }, wasOpen: false, isNoted: false }

/** Returns the next state and the effects of an event. Total and pure. */
export function step(state: ProxyState, event: ProxyEvent): Result {
  switch (state.kind) {
    case "closed":
      return [state, event.kind === "connected" ? [{ kind: "closeLink", link: event.connection.link }] : []]
    case "open":
      return whileOpen(state, event)
    case "absent":
    case "starting":
    case "refused":
      return whileApart(state, event)
  }
}

/** Returns why requests fail at once; undefined if none does. */
export function refusalOf(state: ProxyState): string | undefined {
  if (state.kind === "refused") return state.reason
  return state.kind === "open" ? state.refusal : undefined
}

/** Returns the connection to the instance, also before it has answered the hello. */
export function linkOf(state: ProxyState): ProxyLink | undefined {
  if (state.kind === "open") return state.link
  return state.kind !== "closed" && state.attempt.kind === "greeting" ? state.attempt.link : undefined
}

// ---

function whileOpen(state: ProxyState & { readonly kind: "open" }, event: ProxyEvent): Result {
  const { refusal } = state
  switch (event.kind) {
    case "moved":
      return [state, [{ kind: "move" }]]
    case "due":
      return [state, refusal === undefined ? [] : [{ kind: "move" }]]
    case "welcome":
      if (refusal === undefined) return [state, []]
      return [{ ...state, refusal: undefined }, [{ kind: "cancelRetry" }, { kind: "announce" }]]
    case "refused":
      // Tries again later, because a missing preset may be created.
      return [
        { ...state, refusal: event.reason },
        [...refuse(refusal, event.reason), { kind: "retry", after: "refusal" }],
      ]
    case "lost": {
      const apart = { attempt: NONE, wasOpen: true, isNoted: true }
      const note = { kind: "note", text: "connection to svc lost; waiting for it" } as const
      return lose(
        refusal === undefined ? { ...apart, kind: "absent" } : { ...apart, kind: "refused", reason: refusal },
        [note],
      )
    }
    case "close":
      return [{ kind: "closed" }, [{ kind: "cancelRetry" }, { kind: "closeLink", link: state.link }]]
    case "connected":
      return [state, [{ kind: "closeLink", link: event.connection.link }]]
    case "start":
    case "unfound":
    case "startFailed":
      return [state, []]
  }
}

type ApartState = Exclude<ProxyState, { readonly kind: "open" | "closed" }>

function whileApart(state: ApartState, event: ProxyEvent): Result {
  const { attempt, wasOpen, isNoted } = state
  switch (event.kind) {
    case "start":
    case "due":
      if (attempt.kind !== "none") return [state, []]
      return [{ ...state, attempt: { kind: "connecting" } }, [{ kind: "connect" }]]
    case "moved":
      return [state, attempt.kind === "none" ? [{ kind: "retry", after: "now" }] : []]
    case "connected": {
      const { connection } = event
      if (attempt.kind !== "connecting") return [state, [{ kind: "closeLink", link: connection.link }]]
      return [{ ...state, attempt: { kind: "greeting", link: connection.link } }, [{ kind: "hello", connection }]]
    }
    case "unfound": {
      if (attempt.kind !== "connecting") return [state, []]
      const retry = { kind: "retry", after: "backoff" } as const
      if (event.isStarting) return [{ kind: "starting", attempt: NONE, wasOpen, isNoted: true }, [retry]]
      const text = "no svc is running for this configuration; waiting for it"
      return [{ ...state, attempt: NONE, isNoted: true }, isNoted ? [retry] : [{ kind: "note", text }, retry]]
    }
    case "refused": {
      const before = state.kind === "refused" ? state.reason : undefined
      return [{ kind: "refused", reason: event.reason, attempt, wasOpen, isNoted }, refuse(before, event.reason)]
    }
    case "welcome": {
      if (attempt.kind !== "greeting") return [state, []]
      const noted: readonly ProxyEffect[] = isNoted ? [{ kind: "note", text: "connected to svc" }] : []
      return [
        { kind: "open", link: attempt.link, refusal: undefined },
        [...noted, { kind: "resetBackoff" }, { kind: "resume", isReconnect: wasOpen }],
      ]
    }
    case "startFailed": {
      if (state.kind !== "starting") return [state, []]
      const { reason } = event
      return [
        { kind: "absent", attempt, wasOpen, isNoted },
        [
          { kind: "note", text: reason },
          { kind: "fail", reason, isLasting: true },
        ],
      ]
    }
    case "lost":
      return attempt.kind === "greeting" ? lose({ ...state, attempt: NONE }, []) : [state, []]
    case "close": {
      const link = linkOf(state)
      return [{ kind: "closed" }, [{ kind: "cancelRetry" }, ...(link ? [{ kind: "closeLink", link } as const] : [])]]
    }
  }
}

function lose(state: ApartState, effects: readonly ProxyEffect[]): Result {
  const after = state.kind === "refused" ? "refusal" : "backoff"
  return [state, [...effects, { kind: "endRequests" }, { kind: "retry", after }]]
}

/** Tells the user a new reason, and fails the requests that are held. */
const refuse = (before: string | undefined, reason: string): readonly ProxyEffect[] => [
  ...(reason === before ? [] : [{ kind: "note", text: reason } as const]),
  { kind: "fail", reason, isLasting: false },
]

const NONE: Attempt = { kind: "none" }
