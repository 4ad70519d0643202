/** Reads the body of a request up to a size limit. */
import { RequestError } from "../lib/errors.ts"
import { parseJson } from "../wire/message.ts"

/**
 * Reads the body as text and calls `take` with it, which must not throw. Calls `fail` with a RequestError above `limit` bytes,
 * even if the body does not declare its length. Creates no promise of its own, because this runs for every call.
 */
export function takeBodyText(
  request: Request,
  limit: number,
  take: (text: string) => void,
  fail: (error: unknown) => void,
): void {
  try {
    const reading = isBounded(request, limit) ? request.text() : readUnbounded(request, limit)
    reading.then(take, (cause: unknown) => fail(readFault(cause)))
  } catch (error) {
    fail(error)
  }
}

/** Reads the body as text. Rejects with a RequestError above `limit` bytes, even if the body does not declare its length. */
export const readBodyText = (request: Request, limit: number): Promise<string> =>
  new Promise((resolve, reject) => takeBodyText(request, limit, resolve, reject))

/** Reads the body as a JSON value. Rejects with a RequestError above `limit` bytes and for invalid JSON. */
export const readJson = (request: Request, limit: number): Promise<unknown> =>
  readBodyText(request, limit)
    .then(parseJson)
    .catch((error: unknown) => {
      throw encodingFault(request) ?? error
    })

/** Returns why a body that is no JSON could not be read: its client has compressed it. RFC 9110, 15.5.16. */
export function encodingFault({ headers }: Request): RequestError | undefined {
  const encoding = headers.get("content-encoding")
  if (encoding === null || /^(?:identity)?$/i.test(encoding.trim())) return undefined
  return new RequestError("unsupported_media_type", "svc reads no compressed bodies: send it without Content-Encoding")
}

// ---

/** Whether the body declares its length. Throws a RequestError if the length is above the limit. */
function isBounded(request: Request, limit: number): boolean {
  const declared = request.headers.get("content-length")
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit)
  return declared !== null
}

const tooLarge = (limit: number) => new RequestError("too_large", `The body is larger than ${limit} bytes`)

/** Reads a body that does not declare its length. */
async function readUnbounded(request: Request, limit: number): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body ?? []) {
    size += chunk.length
    if (size > limit) throw tooLarge(limit)
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString("utf8")
}

const readFault = (cause: unknown): RequestError =>
  cause instanceof RequestError
    ? cause
    : new RequestError("invalid_request", "The connection ended before the whole body arrived", undefined, { cause })
