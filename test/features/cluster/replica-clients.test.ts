/** Requests to other replicas, which other requests must not hold up. */
import { afterEach, expect, test } from "bun:test"
import { ReplicaClients } from "../../../src/features/cluster/replica-clients.ts"
import { systemClock as clock } from "../../../src/lib/clock.ts"

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** Starts a replica that answers probes, and lets posts hang. */
function startReplica() {
  const seen: Headers[] = []
  const arrivals: (() => void)[] = []
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    fetch(request) {
      seen.push(new Headers(request.headers))
      for (const arrive of arrivals.splice(0)) arrive()
      if (request.method === "POST") return new Promise<Response>(() => undefined)
      const headers = { "set-cookie": "user=a; Path=/", "x-one": "1", "content-encoding": "gzip" }
      return new Response(Bun.gzipSync("alive"), { headers })
    },
  })
  closing.push(() => server.stop(true))
  const count = async (wanted: number) => {
    while (seen.length < wanted) await new Promise<void>((resolve) => arrivals.push(resolve))
  }
  return { url: `http://127.0.0.1:${server.port}`, seen, count }
}

function open(addresses: readonly string[]) {
  const clients = new ReplicaClients({ clock, env: {} }, () => addresses)
  closing.push(() => clients.close())
  return clients
}

test("calls that hang at one replica hold up neither its probes nor another replica [cluster:silent]", async () => {
  const [hanging, other] = [startReplica(), startReplica()]
  const { send, probe } = open([hanging.url, other.url])
  const abort = new AbortController()
  const calls = Array.from({ length: 300 }, () =>
    send(`${hanging.url}/mcp`, { method: "POST", body: "{}", signal: abort.signal }).catch(() => undefined),
  )
  await hanging.count(300)
  for (const { url } of [hanging, other]) expect((await probe(`${url}/health/live`, {})).status).toBe(200)
  expect(await (await send(`${other.url}/x`, {})).text()).toBe("alive")
  abort.abort()
  await Promise.all(calls)
})

test("a response goes on with its headers and a decoded body, and its cookies reach no other user", async () => {
  const replica = startReplica()
  const { send } = open([])
  for (let round = 0; round < 2; round++) {
    const response = await send(`${replica.url}/x`, { headers: new Headers({ host: "svc.example", "x-two": "2" }) })
    expect(await response.text()).toBe("alive")
    expect(response.headers.get("content-encoding")).toBeNull()
    expect(response.headers.get("set-cookie")).toContain("user=a")
  }
  for (const headers of replica.seen)
    expect([headers.get("host"), headers.get("x-two"), headers.get("cookie")]).toEqual(["svc.example", "2", null])
})
