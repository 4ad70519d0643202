/** The client of a request, and the way back to it. */
import type { Ownership } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import type { Scope } from "../catalog/scope.ts"
import { type Era, TASKS_EXTENSION } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Cancellation } from "./cancellation.ts"

/** What a client states about itself: at `initialize`, or in the `_meta` of a modern request. */
export type Client = {
  readonly era: Era
  readonly protocolVersion: string
  readonly info: Params
  readonly capabilities: Params
  /** The authenticated identity. */
  readonly principal: string
  /** The id of the replica and a digest of its client that the request is for; absent for a client of this replica. */
  readonly behalf?: string | undefined
  /** The id of its session; undefined for a client without a session. */
  readonly id?: string
  /** The same object for all requests that share the way back to their client. */
  readonly session: object
  /** Returns the same text for all requests of a client without a session; absent if the session is the client. */
  readonly identity?: (() => string) | undefined
  readonly scope: Scope
  /** The least severe log message that the client wants; undefined if it has set none. */
  readonly logLevel: string | undefined
  /** The way to the client outside of any request; undefined for a client that exists only for its request. */
  readonly owner?: Exchange
  /** The number of its requests that run. */
  readonly inFlight?: number
  /** What svc remembers of its session; undefined for a client without a session. */
  readonly memory?: SessionMemory
}

/** What a session keeps for the client across requests and restarts of svc. */
export type SessionMemory = {
  /** Adds a subscription to a backend's resource (the backend's own URI). Throws a RequestError if there are too many. */
  addSubscription(backend: string, uri: string): void
  removeSubscription(backend: string, uri: string): void
  /** Adds a task that the client may come back for after a restart, and the replica on which it was made. */
  addTask(backend: string, task: string, replica: string | undefined): void
  /** Removes a task whose id the backend has given to another client. */
  removeTask(backend: string, task: string): void
  setLogLevel(level: string): void
}

/** Returns the owner of what a client creates and comes back for: its session, or the principal of a modern client. */
export const ownerOf = (client: Client): Ownership["owner"] =>
  client.era === "legacy" ? client.session : client.principal

/** Whether a modern client takes a task for the result of a call. extension: Tasks. */
export const supportsTasks = ({ era, capabilities: { extensions } }: Client): boolean =>
  era === "modern" && isObject(extensions) && isObject(extensions[TASKS_EXTENSION])

/** Returns the capability that a client lacks for a server request, in the shape of `capabilities`; undefined if it has it. */
export function missingCapability(
  capabilities: Params,
  method: string,
  params: Params | undefined,
): Params | undefined {
  const { sampling, elicitation, roots } = capabilities
  switch (method) {
    case "sampling/createMessage":
      return sampling === undefined ? { sampling: {} } : undefined
    case "elicitation/create": {
      const { url, form } = isObject(elicitation) ? elicitation : {}
      if (params?.mode === "url") return url === undefined ? { elicitation: { url: {} } } : undefined
      // An object without a mode means form: revisions before 2025-11-25 had no other.
      return elicitation === undefined || (url !== undefined && form === undefined)
        ? { elicitation: { form: {} } }
        : undefined
    }
    case "roots/list":
      return roots === undefined ? { roots: {} } : undefined
    default:
      return undefined
  }
}

/** An answer that is sent in parts. */
export type AnswerBody = {
  /** Sends the next part, which must not change afterwards. A promise asks to wait, because the client has not read enough. */
  write(part: Uint8Array | string): Promise<void> | undefined
  /** The answer is complete. */
  end(): void
}

/** The way back to the client of one request. */
export type Exchange = {
  /** Sends a notification that belongs to the request, as JSON text. */
  notify(text: string): void
  /** Sends the client a server request while its own request runs. Rejects if the client cannot receive one. */
  ask: Caller["ask"]
  /** Returns whether the client is connected; a client without this always is. */
  isConnected?: Caller["isConnected"]
  /** Cancels the request if the client has been away for too long to answer; sooner if other clients wait (`others`). */
  giveUpIfStale?: Caller["giveUpIfStale"]
  /**
   * Begins to send the answer before it is complete; undefined if the client must get it whole. The answer that the request
   * ends with is sent no more. If the body has not ended by then, the client sees that the answer is broken off.
   */
  openBody?(): AnswerBody | undefined
  /** Takes what closes the request, which became a stream without an end, with an answer. */
  onstream?(close: () => void): void
  /** Whether the client gave the request up. */
  readonly cancellation: Cancellation
}
