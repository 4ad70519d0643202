/** What is written down of each call and each change: who, what, how it ended. Never what was said, unless that is asked for. */
import type { Params, Request } from "../wire/message.ts"
import type { Audit, AuditEntry, Client } from "./client.ts"
import { outcomeOf } from "./outcome.ts"

/** Runs a call and writes down what became of it. */
export async function audited<T extends Uint8Array | string>(
  audit: Audit,
  {
    request,
    params,
    server,
    tool,
    client,
  }: { request: Request; params: Params; server: string; tool: string; client: Client },
  run: () => Promise<T>,
): Promise<T> {
  const started = audit.now()
  const entry = (frame: T | undefined): AuditEntry => ({
    time: new Date(started).toISOString(),
    principal: client.principal,
    ...(typeof client.info.name === "string" ? { client: clientName(client.info) } : {}),
    method: request.method,
    server,
    ...(tool === "" ? {} : { tool }),
    outcome: frame === undefined ? "error" : outcomeOf(frame),
    ms: audit.now() - started,
    sent: frame?.length ?? 0,
    received: JSON.stringify(params).length,
    id: request.id,
    ...(audit.mask === undefined ? {} : { arguments: masked(params.arguments, audit.mask) }),
  })
  try {
    const frame = await run()
    audit.write(entry(frame))
    return frame
  } catch (error) {
    audit.write(entry(undefined))
    throw error
  }
}

// ---

const MAX_NAME = 100
const MAX_ARGUMENTS = 4096

const clientName = ({ name, version }: Params): string =>
  `${String(name).slice(0, MAX_NAME)}${typeof version === "string" ? `/${version.slice(0, MAX_NAME)}` : ""}`

/** Cleaned as text, so that what looks like a secret is found wherever it stands. */
function masked(value: unknown, mask: (text: string) => string): unknown {
  const text = mask(JSON.stringify(value ?? {}))
  if (text.length > MAX_ARGUMENTS) return `${text.slice(0, MAX_ARGUMENTS)}…`
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
