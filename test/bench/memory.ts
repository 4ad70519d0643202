/** What svc holds: idle with fifty servers, after a million calls, and for each idle session, without and with an open stream. */
import type { Measured } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { pss } from "./proc.ts"
import type { Rig } from "./rig.ts"
import { callFrame, type Instance, openSession, requestsOf, startSvc } from "./targets.ts"

const SERVERS = 50
const TOOLS = 20
const CALLS = 1_000_000
const CALLERS = 64
/** As many as svc takes. */
const SESSIONS = 10_000
/** What the first sessions cost once is not counted. */
const FIRST = 100
const OPENERS = 16
/** svc gives back what a start and what many calls leave behind when nothing has happened for a while. */
const REST_MS = 35_000
const MB = 1024 * 1024

export async function measureMemory(rig: Rig): Promise<Measured> {
  await using svc = await startSvc(serversOf(SERVERS, TOOLS))
  const idle = await rested(svc.pid)
  const after = await callOften(rig, svc)
  await using fresh = await startSvc(serversOf(1, TOOLS))
  const { session, stream } = await openIdleSessions(fresh)
  return {
    figures: [
      { what: `memory (PSS) of svc, idle, ${SERVERS} servers`, value: idle / MB, unit: "MB", aim: { most: 55 } },
      {
        what: "its growth after 1,000,000 calls and half a minute of rest",
        value: (after - idle) / MB,
        unit: "MB",
        aim: { most: 5 },
        from: `${(after / MB).toFixed(1)} MB after`,
      },
      {
        what: `an idle session with an open stream (of ${SESSIONS.toLocaleString("en-US")})`,
        value: (session + stream) / 1024,
        unit: "KB",
        aim: { most: 10 },
        from: `${(session / 1024).toFixed(1)} KB without the stream`,
      },
    ],
  }
}

// ---

/** PSS when nothing has happened for a while. */
async function rested(pid: number): Promise<number> {
  await Bun.sleep(REST_MS)
  return pss(pid)
}

async function callOften(rig: Rig, svc: Instance): Promise<number> {
  const frames = Array.from({ length: CALLERS }, (_, index) => callFrame(index + 1, svc.tool("echo"), "hello world"))
  const requests = requestsOf(svc, await openSession(svc), frames)
  await rig.run({ kind: "http", port: svc.port, needle: "hello world", requests, warm: 0, ms: Infinity, count: CALLS })
  return rested(svc.pid)
}

/** Bytes for each of many idle sessions, and for the open and silent stream of each. */
async function openIdleSessions(svc: Instance): Promise<{ readonly session: number; readonly stream: number }> {
  const sockets = await openMany(await openMany(range(FIRST), () => openSession(svc)), (headers) =>
    openStream(svc, headers),
  )
  const count = SESSIONS - FIRST
  const before = await rested(svc.pid)
  const sessions = await openMany(range(count), () => openSession(svc))
  const without = await rested(svc.pid)
  sockets.push(...(await openMany(sessions, (headers) => openStream(svc, headers))))
  const after = await rested(svc.pid)
  for (const socket of sockets) socket.end()
  return { session: (without - before) / count, stream: (after - without) / count }
}

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, n) => n)

/** Opens something for each item, a few at a time. */
async function openMany<T, R>(items: readonly T[], open: (item: T) => Promise<R>): Promise<R[]> {
  const opened: R[] = []
  const rest = items.values()
  await Promise.all(
    range(OPENERS).map(async () => {
      for (const item of rest) opened.push(await open(item))
    }),
  )
  return opened
}

/** Opens the stream of a session. Rejects if svc refuses it, and if the system lets this process open no more files. */
function openStream({ port }: Instance, headers: Readonly<Record<string, string>>): Promise<Bun.Socket> {
  const lines = Object.entries({ Host: `127.0.0.1:${port}`, ...headers, Accept: "text/event-stream" })
  const request = `GET /mcp HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`
  return new Promise((resolve, reject) => {
    Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (socket) => void socket.write(request),
        data(socket, chunk) {
          const answer = chunk.toString("latin1")
          if (answer.startsWith("HTTP/1.1 2")) resolve(socket)
          else reject(new Error(answer))
        },
      },
    }).catch(reject)
  })
}
