/** An error answer of a peer, as an Error. */
import { RPC_CODE } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import type { ErrorObject } from "../wire/message.ts"

/** A JSON-RPC error answer of a backend, or of a client that was asked. */
export class PeerError extends Error {
  override readonly name = "PeerError"
  readonly code: number
  constructor(
    /** The code as the peer wrote it. */
    readonly written: ErrorObject["code"],
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
    this.code = Number(written)
  }
}

/** Returns an error answer as an Error. The peer may have sent anything as code and message. */
export const peerError = (error: ErrorObject): PeerError =>
  new PeerError(
    Number.isSafeInteger(numberOf(error.code)) ? error.code : RPC_CODE.internalError,
    typeof error.message === "string" ? error.message : "error",
    error.data,
  )
