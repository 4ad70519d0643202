/** What a target of notifications gets. */
import type { AlertKind } from "../../config/schema.ts"
import type { Notice } from "./alerts.ts"

/** A notification. `id` stays the same when it is sent again. */
export type NotifyMessage = {
  readonly id: string
  readonly kind: AlertKind | "test"
  readonly text: string
  readonly body: string
}

/** Where notifications come from. */
export type NotifyOrigin = { readonly host: string; readonly replica: string | undefined }

/** Returns the message of a notice; `id` is unique. `mask` redacts. */
export function messageOfNotice(
  id: string,
  { kind, subject, server, text, status, since }: Notice,
  { host, replica }: NotifyOrigin,
  now: number,
  mask: (text: string) => string,
): NotifyMessage {
  const line = mask(`svc on ${host}: ${status === "resolved" ? `resolved: ${text}` : text}`)
  return encode(id, kind, line, now, {
    status,
    subject,
    ...(server === undefined ? {} : { server }),
    message: mask(text),
    since: new Date(since).toISOString(),
    host,
    ...(replica === undefined ? {} : { replica }),
  })
}

/** Returns the message that `svc notify test` sends. */
export const testMessage = (id: string, { host }: Pick<NotifyOrigin, "host">, now: number): NotifyMessage =>
  encode(id, "test", `svc on ${host}: this is a test notification`, now, {
    status: "firing",
    subject: "test",
    message: "this is a test notification",
    since: new Date(now).toISOString(),
    host,
  })

// ---

/** `text` is what the incoming webhooks of Slack, Mattermost and others show; type, timestamp and data are those of Standard Webhooks. */
const encode = (id: string, kind: NotifyMessage["kind"], text: string, now: number, data: object): NotifyMessage => ({
  id,
  kind,
  text,
  body: JSON.stringify({ type: `svc.${kind}`, timestamp: new Date(now).toISOString(), text, data }),
})
