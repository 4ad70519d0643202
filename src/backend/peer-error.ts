/** An error answer of a peer, as an Error. */
import { RPC_CODE } from "../lib/errors.ts"
import { numberOf } from "../lib/json.ts"
import type { ErrorObject, Params } from "../wire/message.ts"

/** A JSON-RPC error answer of a backend, or of a client that was asked. */
export class PeerError extends Error {
  override readonly name = "PeerError"
  readonly code: number
  constructor(
    /** The code as the peer wrote it. */
    readonly written: ErrorObject["code"],
    message: string,
    readonly data?: unknown,
    /** The members that JSON-RPC does not define. */
    private readonly others: Params = {},
  ) {
    super(message)
    this.code = Number(written)
  }

  /** The error as the peer wrote it. */
  get object(): ErrorObject {
    const { others, written, message, data } = this
    return { ...others, code: written, message, ...(data === undefined ? {} : { data }) }
  }
}

/** Returns an error answer as an Error. The peer may have sent anything as code and message. */
export const peerError = ({ code, message, data, ...others }: ErrorObject): PeerError =>
  new PeerError(
    Number.isSafeInteger(numberOf(code)) ? code : RPC_CODE.internalError,
    typeof message === "string" ? message : "error",
    data,
    others,
  )
