/** `svc health`: asks an instance how it is, and for pipelines waits until it is ready. */
import type { CommandDef } from "citty"
import { systemClock } from "../lib/clock.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { isObject } from "../wire/message.ts"
import { options } from "./command.ts"
import { print, say, table } from "./output.ts"

export const health: CommandDef = {
  meta: { name: "health", description: "Show the health of a running svc; --wait waits until it is ready" },
  args: {
    url: { type: "string", description: "Where svc listens (default http://127.0.0.1:3050), or unix:/path" },
    wait: { type: "string", description: "Wait this long until it is ready, for example 60s" },
    json: { type: "boolean", description: "Print JSON" },
  },
  async run({ args }) {
    const option = options(args, process.env)
    const url = (option.text("url") ?? `http://127.0.0.1:${option.integer("port", 3050, 1, 65_535)}`).replace(
      /\/+$/,
      "",
    )
    const wait = typeof args.wait === "string" ? option.duration("wait", 0) : undefined
    if (wait !== undefined) await waitUntilReady(url, wait)
    const { body } = await ask(`${url}/health`)
    print(args.json === true, body, () => describe(body))
    const ready = await ask(`${url}/health/ready`)
    return body.status !== "unhealthy" && ready.ok ? 0 : 69
  },
}

// ---

const FIRST_PAUSE_MS = 50
const LAST_PAUSE_MS = 2000
const SPEAK_AFTER_MS = 1000

type Answer = { readonly ok: boolean; readonly body: Record<string, unknown> }

async function ask(url: string): Promise<Answer> {
  try {
    // unix:/run/svc.sock/health: all up to the name of the socket is its path.
    const [, unix, path] = /^unix:(.+?)(\/health(?:\/\w+)?)$/.exec(url) ?? []
    const signal = AbortSignal.timeout(10_000)
    const { SVC_TOKEN } = process.env
    const headers = SVC_TOKEN === undefined ? {} : { authorization: `Bearer ${SVC_TOKEN}` }
    const response =
      unix === undefined
        ? await fetch(url, { signal, headers })
        : await fetch(`http://localhost${path}`, { signal, headers, unix })
    const body: unknown = await response.json()
    return { ok: response.ok, body: isObject(body) ? { ...body } : {} }
  } catch (cause) {
    throw new UnavailableError(`cannot reach ${url}: ${messageOf(cause)}`, { cause })
  }
}

/** Ready, and all servers through their first start; else an UnavailableError that says what is not. */
async function waitUntilReady(url: string, ms: number): Promise<void> {
  const started = systemClock.now()
  let said = false
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LAST_PAUSE_MS)) {
    const why = await reasonNotReady(url)
    if (why === undefined) return
    const passed = systemClock.now() - started
    if (passed + pause > ms) throw new UnavailableError(`not ready after ${Math.round(passed / 1000)} s: ${why}`)
    if (!said && passed > SPEAK_AFTER_MS) {
      said = true
      say(`waiting: ${why}`)
    }
    await new Promise<void>((done) => systemClock.after(pause, done))
  }
}

async function reasonNotReady(url: string): Promise<string | undefined> {
  try {
    const ready = await ask(`${url}/health/ready`)
    if (!ready.ok) {
      const { configuration, backendSupervision } = ready.body
      if (isObject(configuration) && configuration.loaded === false) return "the configuration is not loaded"
      return `supervised servers: ${JSON.stringify(backendSupervision)}`
    }
    const { ok, body } = await ask(`${url}/health/mcp`)
    if (!ok) return "svc does not tell how loading goes: give it a token in SVC_TOKEN"
    const { loading, summary } = body
    return isObject(loading) && loading.isComplete === false ? `loading: ${JSON.stringify(summary)}` : undefined
  } catch (error) {
    return messageOf(error)
  }
}

function describe(body: Record<string, unknown>): string {
  const { status, version, servers, configuration } = body
  const counts = isObject(servers) ? `${servers.healthy} of ${servers.total} servers healthy` : ""
  const off =
    isObject(configuration) && Number(configuration.disabledCount) > 0
      ? `, ${configuration.disabledCount} disabled`
      : ""
  const details = isObject(servers) && Array.isArray(servers.details) ? servers.details.filter(isObject) : []
  const rows = details.map((one) => [
    String(one.name),
    String(one.status),
    one.healthy === true ? "yes" : "no",
    String(one.lastError ?? ""),
  ])
  return [
    `${status} (svc ${version}): ${counts}${off}`,
    ...(rows.length > 0 ? [table(["name", "status", "healthy", "last error"], rows)] : []),
  ].join("\n\n")
}
