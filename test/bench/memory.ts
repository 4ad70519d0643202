/** What svc holds: idle with fifty servers, after a million calls, and for each idle session with an open stream. */
import type { Measured } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { pss } from "./proc.ts"
import type { Rig } from "./rig.ts"
import { callFrame, type Instance, openSession, requestsOf, startSvc } from "./targets.ts"

const SERVERS = 50
const TOOLS = 20
const CALLS = 1_000_000
const CALLERS = 64
const SESSIONS = 1000
const SETTLE_MS = 3000
/** svc gives back what a start and what many calls leave behind when nothing has happened for a while. */
const REST_MS = 35_000
const MB = 1024 * 1024

export async function measureMemory(rig: Rig): Promise<Measured> {
  await using svc = await startSvc(serversOf(SERVERS, TOOLS))
  const idle = await settled(svc.pid, REST_MS)
  const after = await callOften(rig, svc)
  await using fresh = await startSvc(serversOf(1, TOOLS))
  const perSession = await openStreams(fresh)
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
        value: perSession / 1024,
        unit: "KB",
        aim: { most: 20 },
      },
    ],
  }
}

// ---

/** PSS when nothing has happened for a while. */
async function settled(pid: number, ms = SETTLE_MS): Promise<number> {
  await Bun.sleep(ms)
  return pss(pid)
}

async function callOften(rig: Rig, svc: Instance): Promise<number> {
  const frames = Array.from({ length: CALLERS }, (_, index) => callFrame(index + 1, svc.tool("echo"), "hello world"))
  const requests = requestsOf(svc, await openSession(svc), frames)
  await rig.run({ kind: "http", port: svc.port, needle: "hello world", requests, warm: 0, ms: Infinity, count: CALLS })
  return settled(svc.pid, REST_MS)
}

/** Bytes for each of many sessions whose streams are open and silent. */
async function openStreams(svc: Instance): Promise<number> {
  // What the first ones cost once is not counted.
  const sockets = await openMany(svc, 20)
  const before = await settled(svc.pid)
  sockets.push(...(await openMany(svc, SESSIONS)))
  const bytes = (await settled(svc.pid)) - before
  for (const socket of sockets) socket.end()
  return bytes / SESSIONS
}

async function openMany(svc: Instance, count: number): Promise<Bun.Socket[]> {
  const sockets: Bun.Socket[] = []
  for (let n = 0; n < count; n++) {
    const headers = Object.entries({ ...(await openSession(svc)), Accept: "text/event-stream" })
    const request = `GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:${svc.port}\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n`
    await new Promise<void>((resolve, reject) => {
      Bun.connect({
        hostname: "127.0.0.1",
        port: svc.port,
        socket: {
          open(socket) {
            sockets.push(socket)
            socket.write(request)
          },
          data: (_socket, chunk) =>
            chunk.toString("latin1").startsWith("HTTP/1.1 2") ? resolve() : reject(new Error(chunk.toString("latin1"))),
        },
      }).catch(reject)
    })
  }
  return sockets
}
