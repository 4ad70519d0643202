/** Sends one request to a receiver of OTLP/HTTP. https://opentelemetry.io/docs/specs/otlp/#otlphttp */
import { networkReason } from "../../lib/network-error.ts"
import type { Rejected } from "./encoding.ts"
import type { ExporterSettings } from "./settings.ts"

export type PostDeps = Pick<ExporterSettings, "url" | "headers" | "timeout"> & {
  readonly encoding: { readonly contentType: string; rejected(answer: Uint8Array): Rejected }
  send(url: string, init: RequestInit): Promise<Response>
  /** Reads the body of an answer. Rejects if it is too large. */
  read(response: Response): Promise<Uint8Array>
}

export type PostOutcome =
  | { readonly kind: "taken"; readonly rejected: Rejected }
  /** Another attempt may succeed, not before `after` milliseconds. */
  | { readonly kind: "unreachable"; readonly reason: string; readonly after?: number | undefined }
  | { readonly kind: "refused"; readonly reason: string; readonly after?: undefined }

/** Sends a body. Never rejects. */
export async function post(
  body: Uint8Array<ArrayBuffer>,
  closing: AbortSignal,
  { url, headers, timeout, encoding, send, read }: PostDeps,
): Promise<PostOutcome> {
  let response: Response
  let answer: Uint8Array
  try {
    // The headers may hold a credential, which no other address may get.
    response = await send(url, {
      method: "POST",
      headers: { ...headers, "content-type": encoding.contentType },
      body,
      redirect: "manual",
      signal: AbortSignal.any([AbortSignal.timeout(timeout), closing]),
    })
    answer = await read(response)
  } catch (cause) {
    return { kind: "unreachable", reason: networkReason(url, cause) }
  }
  const { status, ok } = response
  if (ok) return { kind: "taken", rejected: rejectedBy(answer, encoding) }
  const reason = `${new URL(url).host} answered ${status}`
  const seconds = Number(response.headers.get("retry-after"))
  const after = seconds > 0 ? Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) : undefined
  return RETRIED.has(status) ? { kind: "unreachable", reason, after } : { kind: "refused", reason }
}

// ---

/** A receiver that answers 200 with something else has taken everything: some proxies and old receivers answer with nothing. */
function rejectedBy(answer: Uint8Array, encoding: PostDeps["encoding"]): Rejected {
  try {
    return encoding.rejected(answer)
  } catch {
    return { count: 0, reason: "" }
  }
}

const MAX_RETRY_AFTER_MS = 60_000
const RETRIED: ReadonlySet<number> = new Set([429, 502, 503, 504])
