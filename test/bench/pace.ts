/**
 * Calls at the pace of a person or an agent: some time apart, after a time without any, and the first ones after a start. All are
 * compared with the minimal relay, at the same time.
 */
import { digits, type Figure, type Measured } from "./figure.ts"
import type { Count } from "./load.ts"
import { interleave, median, over, type Rig } from "./rig.ts"
import { callFrame, openSession, requestsOf, startRaw, startSvc, stdio, type Target } from "./targets.ts"

const APART_MS = 100
const APART_CALLS = 30
const QUIET_MS = 30_000
const QUIET_ROUNDS = 4
const FIRST_CALLS = 10_000
const FIRST_CALLERS = [1, 16, 64]
const NEEDLE = "hello world"

/** Measures latency, throughput and CPU of calls to one stdio server, relative to the minimal relay. */
export async function measurePace(rig: Rig, rounds: number): Promise<Measured> {
  return { figures: [...(await measureApart(rounds)), ...(await measureFirst(rig, rounds))] }
}

// ---

type Pair<T> = { readonly svc: T; readonly raw: T }

/** Times calls 100 ms apart, the first after 30 s without a call, and the first after a start. */
async function measureApart(rounds: number): Promise<readonly Figure[]> {
  const fresh: Pair<number>[] = []
  const apart: Pair<number>[] = []
  for (let round = 0; round < rounds; round++) {
    await using pair = await startPair()
    fresh.push(await pair.call())
    for (let call = 0; call < APART_CALLS; call++) {
      await Bun.sleep(APART_MS)
      apart.push(await pair.call())
    }
  }
  const quiet: Pair<number>[] = []
  await using pair = await startPair()
  await pair.call()
  for (let round = 0; round < QUIET_ROUNDS; round++) {
    await Bun.sleep(QUIET_MS)
    quiet.push(await pair.call())
  }
  return [
    relative("the first call after a start", fresh, 1.6),
    relative(`a call ${APART_MS} ms after the last`, apart, 1.3),
    relative(`a call ${QUIET_MS / 1000} s after the last`, quiet, 1.3),
  ]
}

/** Counts the first calls of new processes. */
async function measureFirst(rig: Rig, rounds: number): Promise<readonly Figure[]> {
  const figures: Figure[] = []
  for (const callers of FIRST_CALLERS) {
    const counts: { readonly svc: Count[]; readonly raw: Count[] } = { svc: [], raw: [] }
    for (let round = 0; round < rounds; round++) {
      await using svc = await startSvc({ echo: stdio() })
      await using raw = await startRaw()
      const one = await interleave(1, { svc: await firstOf(rig, svc, callers), raw: await firstOf(rig, raw, callers) })
      counts.svc.push(...one.svc)
      counts.raw.push(...one.raw)
    }
    const who = `the first ${digits(FIRST_CALLS)} calls after a start, ${callers} ${callers === 1 ? "caller" : "callers"}`
    const cpu = ({ cpu, calls }: Count) => (cpu * 1000) / calls
    figures.push(
      {
        what: `throughput of ${who}, relative to the minimal relay`,
        value: over(counts.svc, ({ rate }, n) => rate / (counts.raw[n]?.rate ?? Number.NaN)),
        unit: "",
        aim: { least: 0.85 },
        from: `${digits(over(counts.svc, ({ rate }) => rate))}/s vs. ${digits(over(counts.raw, ({ rate }) => rate))}/s`,
      },
      {
        what: `CPU of ${who}, relative to the minimal relay`,
        value: over(counts.svc, (count, n) => cpu(count) / cpu(counts.raw[n] ?? count)),
        unit: "",
        aim: { most: 1.6 },
        from: `${digits(over(counts.svc, cpu))} µs vs. ${digits(over(counts.raw, cpu))} µs`,
      },
    )
  }
  return figures
}

async function firstOf(rig: Rig, target: Target, callers: number): Promise<() => Promise<Count>> {
  const requests = requestsOf(target, await openSession(target), framesOf(target, callers))
  const { port, pid } = target
  const job = { kind: "http", port, pid, needle: NEEDLE, requests, warm: 0, ms: Number.POSITIVE_INFINITY } as const
  return () => rig.run({ ...job, count: FIRST_CALLS })
}

const framesOf = (target: Target, callers: number): string[] =>
  Array.from({ length: callers }, (_, index) => callFrame(index + 1, target.tool("echo"), NEEDLE))

function relative(what: string, times: readonly Pair<number>[], most: number): Figure {
  const svc = median(times.map((time) => time.svc))
  const raw = median(times.map((time) => time.raw))
  return {
    what: `time of ${what}, relative to the minimal relay`,
    value: svc / raw,
    unit: "",
    aim: { most },
    from: `${digits(svc)} ms vs. ${digits(raw)} ms, medians of ${times.length} calls`,
  }
}

/** Starts svc and the minimal relay, with an open connection to each. `call` times one call of each, in turn first. */
async function startPair(): Promise<AsyncDisposable & { call(): Promise<Pair<number>> }> {
  const stack = new AsyncDisposableStack()
  const open = async (target: Target) => {
    stack.use(target)
    const [request = ""] = requestsOf(target, await openSession(target), framesOf(target, 1))
    return connect(target.port, request)
  }
  const svc = await open(await startSvc({ echo: stdio() }))
  const raw = await open(await startRaw())
  let isSvcFirst = false
  return {
    async call() {
      isSvcFirst = !isSvcFirst
      if (isSvcFirst) {
        const time = await svc()
        return { svc: time, raw: await raw() }
      }
      const time = await raw()
      return { raw: time, svc: await svc() }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

/** Opens a connection. The returned function sends the request and returns how many milliseconds its answer took. */
async function connect(port: number, request: string): Promise<() => Promise<number>> {
  let answered: (time: number) => void = () => undefined
  let started = 0
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data(_socket, chunk) {
        // A call's answer is small: it comes in one chunk.
        if (!chunk.includes(NEEDLE)) throw new Error(`answered ${chunk.toString("utf8").slice(0, 300)}`)
        answered(performance.now() - started)
      },
    },
  })
  return () =>
    new Promise((resolve) => {
      answered = resolve
      started = performance.now()
      socket.write(request)
    })
}
