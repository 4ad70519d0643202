/** The client of a request, and the exchange that reaches it. */
import type { Ownership } from "../agent/task-owners.ts"
import type { Caller } from "../backend/attribution.ts"
import { PeerError } from "../backend/peer-error.ts"
import type { Scope } from "../catalog/scope.ts"
import { RPC_CODE } from "../lib/errors.ts"
import { type Era, TASKS_EXTENSION } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Cancellation } from "./cancellation.ts"

/** The principal of requests from another replica, which has already counted them against its clients' limits. */
export const REPLICA = "replica"

/** A client, with its own statements at `initialize` or in the `_meta` of a modern request. */
export type Client = {
  readonly era: Era
  readonly protocolVersion: string
  readonly info: Params
  readonly capabilities: Params
  /** The authenticated identity. */
  readonly principal: string
  /** The id of the replica that sent the request and a digest of its client; absent for a client of this replica. */
  readonly behalf?: string | undefined
  /** The id of its session; undefined for a client without a session. */
  readonly id?: string
  /** The same object for all requests of a session or connection. */
  readonly session: object
  /** Returns the same text for all requests of a client without a session; absent if the session is the client. */
  readonly identity?: (() => string) | undefined
  readonly scope: Scope
  /** The least severe log message that the client wants; undefined if it has set none. */
  readonly logLevel: string | undefined
  /** Reaches the client outside of any request; undefined for a client that exists only for its request. */
  readonly owner?: Exchange
  /** The number of its running requests. */
  readonly inFlight?: number
  /** The stored state of its session; undefined for a client without a session. */
  readonly memory?: SessionMemory
}

/**
 * The state that a session keeps for its client across requests and restarts of svc. What a client sets in it must hold for its
 * next request at any replica: `Told` resolves when the other replicas know, and is undefined if there are none.
 */
export type SessionMemory = {
  /** Adds a subscription to a backend's resource (the backend's own URI). Throws a RequestError if there are too many. */
  addSubscription(backend: string, uri: string): Told
  removeSubscription(backend: string, uri: string): Told
  /** Adds a task that the client may request after a restart, and the replica on which it was created. */
  addTask(backend: string, task: string, replica: string | undefined): void
  /** Removes a task whose id the backend has given to another client. */
  removeTask(backend: string, task: string): void
  setLogLevel(level: string): Told
}

export type Told = Promise<void> | undefined

/** Returns the owner of a client's tasks and elicitations: its session, or the principal of a modern client. */
export const ownerOf = (client: Client): Ownership["owner"] =>
  client.era === "legacy" ? client.session : client.principal

/** Whether a modern client accepts a task as the result of a call. extension: Tasks. */
export const supportsTasks = ({ era, capabilities: { extensions } }: Client): boolean =>
  era === "modern" && isObject(extensions) && isObject(extensions[TASKS_EXTENSION])

/**
 * Returns the capability that a client lacks for a server request, in the shape of `capabilities`; undefined if it lacks
 * none.
 */
export function missingCapability(
  capabilities: Params,
  method: string,
  params: Params | undefined,
): Params | undefined {
  const { sampling, elicitation, roots } = capabilities
  switch (method) {
    case "sampling/createMessage":
      return missingForSampling(sampling, params)
    case "elicitation/create": {
      const { url, form } = isObject(elicitation) ? elicitation : {}
      if (params?.mode === "url") return url === undefined ? { elicitation: { url: {} } } : undefined
      // An object without a mode means form: revisions before 2025-11-25 had no other mode.
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

/**
 * Returns the error for a server request that needs a capability that the client lacks, in the words that a server on the official
 * SDK gets without svc: tools pass them on. 2025-11-25: Elicitation, Error Handling.
 */
export function lackingCapability(missing: Params, { elicitation }: Params, method: string): PeerError {
  if (isObject(missing.elicitation)) {
    const code = elicitation === undefined ? RPC_CODE.methodNotFound : RPC_CODE.invalidParams
    return new PeerError(code, `Client does not support ${Object.keys(missing.elicitation).join()} elicitation.`)
  }
  const what = "sampling" in missing && isObject(missing.sampling) && "tools" in missing.sampling ? " with tools" : ""
  return new PeerError(RPC_CODE.methodNotFound, `Method not found: the client does not support ${method}${what}`)
}

/** Servers must not send tools to a client that does not declare them. 2025-11-25: Sampling, Capabilities. */
function missingForSampling(sampling: unknown, params: Params | undefined): Params | undefined {
  if (sampling === undefined) return { sampling: {} }
  const declared = isObject(sampling) ? sampling : {}
  const usesTools = params?.tools !== undefined || params?.toolChoice !== undefined
  return usesTools && declared.tools === undefined ? { sampling: { tools: {} } } : undefined
}

/** An answer that is sent in parts. */
export type AnswerBody = {
  /** Sends the next part, which must not change afterwards. Returns a promise to wait for if the client reads too slowly. */
  write(part: Uint8Array | string): Promise<void> | undefined
  /** Completes the answer. */
  end(): void
}

/** Reaches the client of one request while the request runs. */
export type Exchange = {
  /** Sends a notification that belongs to the request, as JSON text. */
  notify(text: string): void
  /** Sends a server request to the client while its own request runs. Rejects if the client cannot receive one. */
  ask: Caller["ask"]
  /** Whether the client is connected; absent if it always is. */
  isConnected?: Caller["isConnected"]
  /** Cancels the request if the client has been away for too long to answer; sooner if other clients wait (`others`). */
  giveUpIfStale?: Caller["giveUpIfStale"]
  /**
   * Begins to send the answer before it is complete; undefined if the client must receive it whole. The answer at the end of the
   * request is then not sent. If the body has not ended by then, it is aborted, and the client notices that its end is missing.
   */
  openBody?(): AnswerBody | undefined
  /** Registers the function that ends a request which became an endless stream, with an answer. */
  onstream?(close: () => void): void
  /** Cancelled when the client gives up the request. */
  readonly cancellation: Cancellation
}
