/** `svc serve` */
import { Agent } from "../agent/agent.ts"
import { openChild } from "../backend/child.ts"
import { loadPlan } from "../config/load.ts"
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { listen } from "../serve/server.ts"
import { createFace } from "../session/face.ts"
import { Sessions } from "../session/sessions.ts"
import { createIds } from "../wire/frame.ts"

export async function runServe(args: readonly string[]): Promise<void> {
  const write = (level: string) => (message: string, fields?: object) =>
    void process.stderr.write(`${level} ${message} ${fields === undefined ? "" : JSON.stringify(fields)}\n`)
  const log: Log = { debug() {}, info: write("info"), warn: write("warn"), error: write("error") }
  const clock = systemClock
  const random = () => crypto.randomUUID().replaceAll("-", "")
  const agent = new Agent({
    clock,
    log,
    startedAt: clock.now(),
    ids: createIds(random().slice(0, 16)),
    limit: 64 * 1024 * 1024,
    version: "0.1.0",
    eras: { get: () => undefined, set() {} },
    credentials: () => undefined,
    fetch: (url, init) => fetch(url, { ...init, timeout: false } as RequestInit),
    openChild: (launch, events) =>
      openChild(launch, events, { clock, limit: 64 * 1024 * 1024, grace: 2000, onstderr() {} }),
  })
  const sessions = new Sessions(clock, { count: 10_000, ttl: 24 * 3600_000 }, (session) => agent.forget(session))
  const { face } = createFace(agent, () => sessions.all(), "0.1.0")
  const server = listen(
    { hostname: "127.0.0.1", port: Number(args[1] ?? 3050) },
    {
      agent,
      wrappers: [],
      mcp: {
        face,
        sessions,
        newId: random,
        maxBody: 4 * 1024 * 1024,
        onbug: (error) => log.error(String(error instanceof Error ? error.stack : error)),
        hold() {},
        streams: new Set(),
      },
    },
  )
  log.info(`listening on ${server.url.href}`)
  agent.awaitFirstRound(5000)
  agent.apply(loadPlan(args[0] ?? "mcp.json", process.env))
}
