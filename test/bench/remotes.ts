/** Remote servers over a network with delays: the first list of many, a call of one, and a server that holds up many calls. */
import { join } from "node:path"
import { digits, type Figure, type Measured } from "./figure.ts"
import { median, quantile } from "./rig.ts"
import { callFrame, OPENING, openSession, startFloor, startSvc, type Target } from "./targets.ts"

const REMOTES = 30
const TRIP_MS = 40
const SLOWEST_MS = 120
const CALLS = 50
const MANY_CALLS = 1000
const HELD_MS = 2000
/** The most connections to one server, as the documentation states. */
const MAX_CONNECTIONS = 256

export async function measureRemotes(rounds: number): Promise<Measured> {
  return { figures: [await measureList(rounds), ...(await measureRemoteCalls())] }
}

// ---

/** Compares the first list of many remote servers with the slowest one's own. */
async function measureList(rounds: number): Promise<Figure> {
  await using floor = await startFloor()
  const trips = Array.from({ length: REMOTES }, (_, n) => (n === 0 ? SLOWEST_MS : TRIP_MS))
  const direct: number[] = []
  const through: number[] = []
  for (let round = 0; round < rounds; round++) {
    // New ports, so that no connection is open already.
    await using network = await startDelay(floor.port, trips)
    direct.push(Math.max(...(await Promise.all(network.ports.map(listDirectly)))))
    const started = performance.now()
    await using svc = await startSvc(serversAt(network.ports))
    await listOf(svc, await openSession(svc))
    through.push(performance.now() - started)
  }
  return {
    what: `cold start, ${REMOTES} remote servers, round trips of ${TRIP_MS} ms and one of ${SLOWEST_MS} ms, added to the slowest one's handshake and list`,
    value: median(through.map((ms, n) => ms - (direct[n] ?? 0))),
    unit: "ms",
    aim: { most: 50 },
    from: `${digits(median(through))} ms vs. ${digits(median(direct))} ms; svc with its own start`,
  }
}

/** Times single calls of a remote server, alone and while another one holds up a thousand. */
async function measureRemoteCalls(): Promise<readonly Figure[]> {
  await using floor = await startFloor()
  await using network = await startDelay(floor.port, [HELD_MS, TRIP_MS])
  await using svc = await startSvc(serversAt(network.ports))
  const headers = { ...JSON_HEADERS, ...(await openSession(svc)) }
  const call = async (id: number, tool: string): Promise<number> => {
    const started = performance.now()
    const body = callFrame(id, tool)
    const answer = await fetch(`http://127.0.0.1:${svc.port}/mcp`, { method: "POST", headers, body })
    const text = await answer.text()
    if (!text.includes("hello world")) throw new Error(`a call of a remote server got ${text.slice(0, 300)}`)
    return performance.now() - started
  }
  const times = async (from: number) => {
    const all: number[] = []
    for (let id = 0; id < CALLS; id++) all.push(await call(from + id, "s1_svc_echo"))
    return all
  }
  await call(1, "s1_svc_echo")
  const alone = await times(100)
  const held = Promise.all(Array.from({ length: MANY_CALLS }, (_, n) => call(10_000 + n, "s0_svc_echo")))
  const beside = await times(1000)
  await held
  return [
    {
      what: `time of a call of a remote server at ${TRIP_MS} ms, in round trips`,
      value: median(alone) / TRIP_MS,
      unit: "",
      aim: { most: 1.1 },
      from: `${digits(median(alone))} ms, medians of ${CALLS} calls`,
    },
    {
      what: `the same while another remote server holds up ${digits(MANY_CALLS)} calls, quantile 0.9`,
      value: quantile(beside, 0.9) / TRIP_MS,
      unit: "",
      aim: { most: 1.3 },
      from: `${digits(quantile(beside, 0.9))} ms, ${CALLS} calls`,
    },
    {
      what: `connections to the server that holds up ${digits(MANY_CALLS)} calls`,
      value: network.most(),
      unit: "",
      aim: { most: MAX_CONNECTIONS + 2 },
    },
  ]
}

const JSON_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }

const serversAt = (ports: readonly number[]): Record<string, unknown> =>
  Object.fromEntries(ports.map((port, n) => [`s${n}`, { url: `http://127.0.0.1:${port}/mcp` }]))

const LIST = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "tools/list" })

async function listOf({ port }: Pick<Target, "port">, session: Readonly<Record<string, string>>): Promise<void> {
  const headers = { ...JSON_HEADERS, ...session }
  const response = await fetch(`http://127.0.0.1:${port}/mcp`, { method: "POST", headers, body: LIST })
  const text = await response.text()
  if (!text.includes("echo")) throw new Error(`a list has no tools: ${text.slice(0, 300)}`)
}

/** Returns the milliseconds of the handshake and the list of a server: the notification and the list go out together. */
async function listDirectly(port: number): Promise<number> {
  const started = performance.now()
  const post = async (body: string) =>
    (await fetch(`http://127.0.0.1:${port}/mcp`, { method: "POST", headers: JSON_HEADERS, body })).text()
  const [first = "", second = ""] = OPENING
  await post(first)
  await Promise.all([post(second), post(LIST)])
  return performance.now() - started
}

type Network = AsyncDisposable & {
  readonly ports: readonly number[]
  /** Returns the most connections that the first server had at once. */
  most(): number
}

/** Starts a network with a listener for each number of milliseconds that a round trip to the server at `port` takes. */
async function startDelay(port: number, trips: readonly number[]): Promise<Network> {
  const child = Bun.spawn({
    cmd: [process.execPath, join(import.meta.dir, "delay.ts"), String(port), ...trips.map(String)],
    stdin: "pipe",
    stdout: "pipe",
    stderr: "inherit",
  })
  const reader = child.stdout.getReader()
  let said = ""
  const read = async () => {
    const { done, value } = await reader.read()
    said += new TextDecoder().decode(value)
    return !done
  }
  while (!said.includes("\n") && (await read()));
  const [ports = "[]"] = said.split("\n")
  void (async () => {
    while (await read());
  })()
  return {
    ports: JSON.parse(ports),
    most: () => Number(said.trim().split("\n").slice(1).at(-1) ?? 0),
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM")
      await child.exited
    },
  }
}
