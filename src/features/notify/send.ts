/** Sends one notification: to a webhook, signed as Standard Webhooks says, or to a command. */
import type { NotifyTarget } from "../../config/notify.ts"
import { hmacSha256 } from "../../lib/digest.ts"
import { messageOf } from "../../lib/errors.ts"
import { networkReason } from "../../lib/network-error.ts"
import { cutText } from "../../lib/text.ts"
import type { NotifyMessage } from "./message.ts"

/** `again`: the same notification may be accepted later; `after` in milliseconds. */
export type DeliveryOutcome =
  | { readonly kind: "sent" }
  | { readonly kind: "failed"; readonly reason: string; readonly again: boolean; readonly after?: number }

/** The world around a delivery. */
export type Senders = {
  /** Sends an HTTP request. Does not follow redirects. */
  send(url: string, init: RequestInit): Promise<Response>
  /** Runs a command with a text on stdin, to its end. Rejects if it cannot start; ends it with the signal. */
  run(
    words: readonly string[],
    input: string,
    variables: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<{ readonly exitCode: number; readonly stderr: string }>
  /** Milliseconds since the epoch. */
  now(): number
  /** Whether commands may run. */
  commands(): boolean
}

/** Sends a message to a target once. `signal` ends it. */
export async function sendMessage(
  { to }: NotifyTarget,
  message: NotifyMessage,
  senders: Senders,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)])
  return to.kind === "webhook" ? post(to, message, senders, limit) : run(to.words, message, senders, limit)
}

/**
 * Returns the headers that let a receiver check a request: id, time in seconds, and the HMAC-SHA-256 of both with the body.
 * A secret that begins with `whsec_` is base64; any other is the key itself. spec of the headers: Standard Webhooks.
 */
export function signatureHeaders(
  { id, body }: Pick<NotifyMessage, "id" | "body">,
  secret: string | undefined,
  now: number,
): Readonly<Record<string, string>> {
  const seconds = String(Math.floor(now / 1000))
  const headers = { "webhook-id": id, "webhook-timestamp": seconds }
  if (secret === undefined) return headers
  const key = secret.startsWith(ENCODED) ? Buffer.from(secret.slice(ENCODED.length), "base64") : Buffer.from(secret)
  const signature = hmacSha256(key, `${id}.${seconds}.${body}`)
  return { ...headers, "webhook-signature": `v1,${signature}` }
}

// ---

const TIMEOUT_MS = 15_000
const ENCODED = "whsec_"
const SHOWN_CHARS = 200
/** The longest pause that a receiver can ask for. */
const MAX_AFTER_MS = 10 * 60_000
/** Statuses after which the same request may succeed. */
const isTemporary = (status: number): boolean => status >= 500 || status === 408 || status === 425 || status === 429

async function post(
  { url, headers, secret }: Extract<NotifyTarget["to"], { kind: "webhook" }>,
  message: NotifyMessage,
  { send, now }: Senders,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  try {
    const response = await send(url, {
      method: "POST",
      headers: { "content-type": "application/json", ...signatureHeaders(message, secret, now()), ...headers },
      body: message.body,
      signal,
    })
    const { status } = response
    void response.body?.cancel().catch(() => undefined)
    if (response.ok) return { kind: "sent" }
    const seconds = Number(response.headers.get("retry-after"))
    const reason = `${new URL(url).host} answered with HTTP status ${status}`
    if (!isTemporary(status)) return { kind: "failed", reason, again: false }
    return {
      kind: "failed",
      reason,
      again: true,
      ...(seconds > 0 ? { after: Math.min(seconds * 1000, MAX_AFTER_MS) } : {}),
    }
  } catch (error) {
    const reason = signal.aborted
      ? `${new URL(url).host} did not answer within ${TIMEOUT_MS / 1000} s`
      : networkReason(url, error)
    return { kind: "failed", reason, again: true }
  }
}

async function run(
  words: readonly string[],
  message: NotifyMessage,
  { run, commands }: Senders,
  signal: AbortSignal,
): Promise<DeliveryOutcome> {
  if (!commands()) return { kind: "failed", reason: COMMANDS_OFF, again: false }
  const [program = ""] = words
  try {
    const variables = { SVC_NOTIFY_TYPE: message.kind, SVC_NOTIFY_TEXT: message.text }
    const { exitCode, stderr } = await run(words, message.body, variables, signal)
    if (signal.aborted)
      return { kind: "failed", reason: `${program} did not end within ${TIMEOUT_MS / 1000} s`, again: true }
    if (exitCode === 0) return { kind: "sent" }
    const last = stderr.trim().split("\n").at(-1)?.trim() ?? ""
    const detail = last === "" ? "" : `: ${cutText(last, SHOWN_CHARS)}`
    return { kind: "failed", reason: `${program} ended with exit code ${exitCode}${detail}`, again: true }
  } catch (error) {
    return { kind: "failed", reason: `${program} cannot run: ${messageOf(error)}`, again: false }
  }
}

const COMMANDS_OFF =
  'commands are off; write "allowCommands": true at the top level of mcp.json in the configuration directory, or start svc with --allow-commands'
