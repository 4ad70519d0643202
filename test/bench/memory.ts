/** The anonymous memory of svc: idle with fifty servers, after a million calls, and per idle session, with and without an open stream. */
import type { Measured } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { anonymous } from "./proc.ts"
import type { Rig } from "./rig.ts"
import { callFrame, type Instance, openSession, requestsOf, startSvc } from "./targets.ts"

const SERVERS = 50
/** The tools of each server: a usual number, and a large one. */
const FEW_TOOLS = 4
const TOOLS = 20
const CALLS = 1_000_000
const CALLERS = 64
/** The most that svc accepts. */
const SESSIONS = 10_000
/** These sessions are not counted: the first ones have costs that occur only once. */
const FIRST = 100
const OPENERS = 16
/** After this time without activity, the runtime has collected the garbage that a start and many calls leave behind. */
const REST_MS = 35_000
const MB = 1024 * 1024

export async function measureMemory(rig: Rig): Promise<Measured> {
  const usual = await idleWith(FEW_TOOLS)
  await using svc = await startSvc(serversOf(SERVERS, TOOLS))
  const idle = await rested(svc.pid)
  const after = await callOften(rig, svc)
  await using fresh = await startSvc(serversOf(1, TOOLS))
  const { session, stream } = await openIdleSessions(fresh)
  return {
    figures: [
      {
        what: `anonymous memory of an idle svc with ${SERVERS} servers of ${FEW_TOOLS} tools`,
        value: usual / MB,
        unit: "MB",
        aim: { most: 20 },
        from: `${(idle / MB).toFixed(1)} MB with ${TOOLS} tools each`,
      },
      {
        what: "memory growth after 1,000,000 calls and half a minute of rest",
        value: (after - idle) / MB,
        unit: "MB",
        aim: { most: 5 },
        from: `${(after / MB).toFixed(1)} MB after the calls`,
      },
      {
        what: `memory of one idle session with an open stream (of ${SESSIONS.toLocaleString("en-US")} sessions)`,
        value: (session + stream) / 1024,
        unit: "KB",
        aim: { most: 10 },
        from: `${(session / 1024).toFixed(1)} KB without the stream`,
      },
    ],
  }
}

// ---

/** Returns the anonymous memory of an idle svc with servers of so many tools. */
async function idleWith(tools: number): Promise<number> {
  await using svc = await startSvc(serversOf(SERVERS, tools))
  return rested(svc.pid)
}

/** Returns the anonymous memory after a time without activity. */
async function rested(pid: number): Promise<number> {
  await Bun.sleep(REST_MS)
  return anonymous(pid)
}

async function callOften(rig: Rig, svc: Instance): Promise<number> {
  const frames = Array.from({ length: CALLERS }, (_, index) => callFrame(index + 1, svc.tool("echo"), "hello world"))
  const requests = requestsOf(svc, await openSession(svc), frames)
  await rig.run({ kind: "http", port: svc.port, needle: "hello world", requests, warm: 0, ms: Infinity, count: CALLS })
  return rested(svc.pid)
}

/** Returns the bytes per idle session, and per open, silent stream. */
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

/** Opens a session or stream for each item, a few at a time. */
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
