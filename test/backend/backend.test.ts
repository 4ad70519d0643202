import { expect, test } from "bun:test"
import { Backend } from "../../src/backend/backend.ts"
import { type Loss, LostError, UnauthorizedError } from "../../src/backend/client-transport.ts"
import type { EstablishedConnection } from "../../src/backend/established-connection.ts"
import { PeerError } from "../../src/backend/peer-error.ts"
import { STATUS_BY_STATE } from "../../src/backend/supervision.ts"
import type { Listing } from "../../src/catalog/listing.ts"
import type { Launch, RestartPolicy, ServerSpec } from "../../src/config/server-spec.ts"
import { type ManualClock, manualClock, settle } from "../clock.ts"

/** One attempt to open, which the test completes. */
type Attempt = {
  /** What the attempt is told of the connections before. */
  readonly known: {
    readonly before?: Listing | undefined
    onnoise?(): void
    repeated?(line: string): string
  }
  readonly signal: AbortSignal
  /** Reports that the transport failed a request. */
  failsRequest(error: Error): void
  renewsSession(): void
  /** Reports that the server has answered a request after a failed one. */
  recovers(): void
  opens(): Connected
  fails(error: Error): void
}
type Connected = {
  lose(loss: Loss): void
  /** Lets `close` finish; it does at once unless `holdClose` is set. */
  readonly closing: boolean
  closed(): void
  answers: "yes" | "no" | "error" | "forgotten"
  lastReceived: number
  silentFor: number | undefined
  pings: number
  /** Why the requests that waited have failed. */
  abandoned: string | undefined
  /** How long the requests of the second connection may wait in silence. */
  secondLimit: number | undefined
}

const LISTING: Listing = {
  era: "legacy",
  protocolVersion: "2025-11-25",
  serverInfo: {},
  capabilities: {},
  instructions: undefined,
  tools: [],
  prompts: [],
  resources: [],
  resourceTemplates: [],
}

const STDIO: Launch = {
  transport: "stdio",
  command: "x",
  args: [],
  cwd: undefined,
  env: {},
  stderr: "pipe",
  mode: "auto",
}
const HTTP: Launch = { transport: "http", url: "http://s/mcp", headers: {}, oauth: undefined, mode: "auto" }

function specOf(
  restart: Partial<RestartPolicy> = {},
  launch: Launch = STDIO,
  tuning: Partial<ServerSpec["tuning"]> = {},
): ServerSpec {
  return {
    id: "web",
    name: "web",
    slug: "web",
    launch,
    tuning: {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      alwaysVisible: [],
      connectionTimeout: 10_000,
      requestTimeout: 60_000,
      restart: { kind: "supervised", limit: 5, delay: 1000, ...restart },
      isolation: "shared",
      idleTimeout: 600_000,
      maxProcesses: 50,
      toolPinning: "report",
      ...tuning,
    },
    secrets: [],
  }
}

function bench(spec = specOf(), options: { holdClose?: boolean; onchange?: () => void } = {}) {
  const clock: ManualClock = manualClock()
  const attempts: Attempt[] = []
  const notes: string[] = []
  const seen: string[] = []
  const living = new Set<object>()
  const backend = new Backend(spec, {
    clock,
    open: (_, { onfailure, onrenewed, onrecovered, ...known }, signal) =>
      new Promise<EstablishedConnection>((resolve, reject) => {
        expect(living.size).toBe(0)
        signal.addEventListener("abort", () => reject(new Error("given up")))
        attempts.push({
          known,
          signal,
          failsRequest: onfailure,
          renewsSession: onrenewed,
          recovers: () => onrecovered?.(),
          fails: reject,
          opens() {
            const { open, control } = connect(clock, living, options.holdClose === true)
            resolve(open)
            return control
          },
        })
      }),
    onchange(changed) {
      seen.push(changed.state.kind)
      options.onchange?.()
    },
    onnote: (_, message) => notes.push(message),
  })
  const last = (): Attempt => attempts.at(-1) as Attempt
  return { backend, clock, attempts, notes, seen, last }
}

function connect(
  clock: ManualClock,
  living: Set<object>,
  hold: boolean,
): { open: EstablishedConnection; control: Connected } {
  let lose: (loss: Loss) => void = () => undefined
  let finish: () => void = () => undefined
  const me = {}
  living.add(me)
  const state = { closing: false, answers: "yes" as Connected["answers"], pings: 0 }
  const dead = new Promise<void>((resolve) => {
    finish = () => {
      living.delete(me)
      resolve()
    }
  })
  const control: Connected = Object.assign(state, {
    lastReceived: clock.now(),
    silentFor: undefined as number | undefined,
    abandoned: undefined as string | undefined,
    secondLimit: undefined as number | undefined,
    lose: (loss: Loss) => lose(loss),
    closed: () => finish(),
  })
  const open = {
    listing: LISTING,
    pid: 4242,
    closed: new Promise<Loss>((resolve) => {
      lose = resolve
    }),
    pair: {
      loseSecondIfSilent(limit: number) {
        control.secondLimit = limit
      },
    },
    abandon(reason: string) {
      control.abandoned = reason
    },
    close() {
      state.closing = true
      if (!hold) finish()
      return dead
    },
    ping: async () => {
      control.pings++
      if (control.answers === "no") throw new Error("no answer to ping within 10 s")
      control.lastReceived = clock.now()
      if (control.answers === "forgotten") throw new PeerError(-32001, "Session not found")
      if (control.answers === "error") throw new PeerError(-32601, "Method not found")
    },
    get lastReceived() {
      return control.lastReceived
    },
    get silentFor() {
      return control.silentFor
    },
    // The driver hands the connection on and does not look into it.
  } as unknown as EstablishedConnection
  return { open, control }
}

test("the listing is published exactly while connected", async () => {
  const { backend, last, seen } = bench()
  backend.start()
  await settle()
  expect(backend.published).toBeUndefined()
  last().opens()
  await settle()
  expect(backend.published?.listing).toBe(LISTING)
  expect(backend.state).toMatchObject({ kind: "connected", pid: 4242 })
  expect(seen).toEqual(["starting", "connected"])
})

test("the next connection is told what was listed before", async () => {
  const { backend, clock, attempts, last } = bench()
  backend.start()
  await settle()
  const first = last().opens()
  await settle()
  first.lose({ reason: "gone" })
  await clock.pass(2000)
  expect(attempts.map(({ known }) => known.before)).toEqual([undefined, LISTING])
})

test("a replacement is not opened before the old process is observed dead", async () => {
  const { backend, clock, attempts, last } = bench(specOf(), { holdClose: true })
  backend.start()
  await settle()
  const first = last().opens()
  await settle()
  first.lose({ reason: "exited with code 1", exit: { code: 1, signal: null, at: 7 } })
  await clock.pass(60_000)
  expect(backend.published).toBeUndefined()
  expect(backend.state.kind).toBe("recovering")
  expect(attempts).toHaveLength(1)
  first.closed()
  await settle()
  expect(attempts).toHaveLength(2)
  expect(backend.facts).toMatchObject({ lastExit: { code: 1 }, lastError: "exited with code 1", restartCount: 1 })
})

test("six failures in a row are a crash loop after 1, 2, 4, 8 and 16 seconds", async () => {
  const { backend, clock, attempts, last } = bench()
  backend.start()
  await settle()
  for (const seconds of [1, 2, 4, 8, 16]) {
    const before = attempts.length
    last().fails(new LostError("web", { reason: "exited with code 3", exit: { code: 3, signal: null, at: 1 } }))
    await clock.pass(seconds * 1000 - 1)
    expect(attempts).toHaveLength(before)
    await clock.pass(1)
    expect(attempts).toHaveLength(before + 1)
  }
  last().fails(new Error("no"))
  await clock.pass(3_600_000)
  expect(backend.state.kind).toBe("crashed")
  expect(STATUS_BY_STATE[backend.state.kind].holdsReady).toBe(true)
  expect(attempts).toHaveLength(6)
  expect(backend.facts.lastExit).toMatchObject({ code: 3 })
  expect(clock.timers).toBe(0)
})

test("a backend that was given up is tried again if its connection timeout or restarts are edited, and for nothing else", async () => {
  const spec = specOf({ kind: "never" })
  const { backend, attempts, last } = bench(spec)
  backend.start()
  await settle()
  last().fails(new Error("no"))
  await settle()
  backend.retune({ ...spec, tuning: { ...spec.tuning, tags: ["x"] } })
  await settle()
  expect([backend.state.kind, attempts.length]).toEqual(["failed", 1])
  const edited = { ...spec, tuning: { ...spec.tuning, connectionTimeout: 60_000 } }
  backend.retune(edited)
  await settle()
  last().opens()
  await settle()
  backend.retune(spec)
  await settle()
  expect([backend.state.kind, attempts.length]).toEqual(["connected", 2])
})

test("five stable minutes reset the attempts", async () => {
  const { backend, clock, last } = bench()
  backend.start()
  await settle()
  last().fails(new Error("no"))
  await clock.pass(1000)
  const connected = last().opens()
  await clock.pass(5 * 60_000 - 1)
  expect(backend.state).toMatchObject({ attempt: 1 })
  await clock.pass(1)
  expect(backend.state).toMatchObject({ kind: "connected", attempt: 0 })
  connected.lose({ reason: "gone" })
  await settle()
  expect(backend.state).toMatchObject({ kind: "waiting", attempt: 1 })
})

test("an attempt that exceeds connectionTimeout is aborted and counts as lost", async () => {
  const { backend, clock, last } = bench()
  backend.start()
  await clock.pass(10_000)
  expect(last().signal.aborted).toBe(true)
  expect(backend.state).toMatchObject({ kind: "waiting", attempt: 1 })
  expect(backend.facts.lastError).toBe("no answer within 10 s (connectionTimeout)")
})

test("repeated losses for one reason are logged less and less often", async () => {
  const { backend, clock, notes, attempts } = bench(specOf({ kind: "reconnect", limit: 0 }))
  const fail = async (times: number) => {
    for (let n = 0; n < times; n++) {
      attempts.at(-1)?.fails(new Error("nobody answers"))
      await clock.pass(16_000)
    }
  }
  backend.start()
  await settle()
  await fail(8)
  expect(notes).toHaveLength(8)
  expect(notes[7]).toMatch(/^could not be started: nobody answers; next try in 16 s .*less often/)
  await fail(1000)
  expect(notes).toHaveLength(14)
  attempts.at(-1)?.fails(new Error("something else"))
  await settle()
  expect(notes.at(-1)).toMatch(/^could not be started: something else; next try in 16 s$/)
})

test("a slow attempt is logged once", async () => {
  const spec = specOf()
  const { backend, clock, notes, last } = bench({ ...spec, tuning: { ...spec.tuning, connectionTimeout: 300_000 } })
  backend.start()
  await clock.pass(29_999)
  expect(notes).toEqual([])
  await clock.pass(1)
  expect(notes).toEqual(["no answer yet (30 s of 5 min)"])
  last().opens()
  await clock.pass(300_000)
  expect(backend.state.kind).toBe("connected")
  expect(notes).toHaveLength(1)
})

test("a process that prints text on stdout is said to, while it does not answer [backend:unanswered]", async () => {
  const { backend, clock, last } = bench()
  backend.start()
  await settle()
  expect(backend.facts.noisy).toBe(false)
  last().known.onnoise?.()
  expect(backend.facts.noisy).toBe(true)
  await clock.pass(10_000)
  expect(backend.facts.lastError).toBe(
    "no answer within 10 s (connectionTimeout); it prints text on stdout that is not MCP (logs belong on stderr)",
  )
  await clock.pass(1000)
  expect(backend.facts.noisy).toBe(false)
})

test("the last error and the log name the line of stderr that explains the exit", async () => {
  const { backend, attempts, notes, last } = bench()
  backend.start()
  await settle()
  const loss = { reason: "exited with code 1", exitReason: "Error: no key" }
  last().fails(new LostError("web", loss))
  await settle()
  expect(attempts).toHaveLength(1)
  expect(backend.facts.lastError).toBe("exited with code 1: Error: no key")
  expect(notes).toEqual(["could not be started: exited with code 1: Error: no key; next try in 1 s (attempt 1 of 5)"])
})

test("the last error of a program that ends without an error says that a server keeps running", async () => {
  const { backend, last } = bench()
  backend.start()
  await settle()
  last().fails(new LostError("web", { reason: "exited with code 0", exit: { code: 0, signal: null, at: 1 } }))
  await settle()
  expect(backend.facts.lastError).toStartWith("exited with code 0: an MCP server on stdio keeps running")
})

test("an invalid message that every new process prints is logged less and less often", async () => {
  const { backend, last } = bench()
  backend.start()
  await settle()
  const { known } = last()
  const logged = Array.from({ length: 9 }, () => known.repeated?.("sent an invalid message: {}"))
  const counted = (times: number) => `sent an invalid message: {} (${times} times)`
  expect(logged).toEqual(["sent an invalid message: {}", counted(2), "", counted(4), "", "", "", counted(8), ""])
  expect(known.repeated?.("another")).toBe("another")
  expect(known.repeated?.("sent an invalid message: {}")).toBe("")
})

test("invalid messages that are all different are logged less and less often", async () => {
  const { backend, last } = bench()
  backend.start()
  await settle()
  const { known } = last()
  const logged = Array.from({ length: 1000 }, (_, at) => known.repeated?.(`at ${at}`) ?? "").filter(
    (line) => line !== "",
  )
  expect(logged.slice(0, 32)).toEqual(Array.from({ length: 32 }, (_, at) => `at ${at}`))
  expect(logged.slice(32).map((line) => line.replace(/ \((\d+) different .*/, " $1"))).toEqual([
    "at 63 64",
    "at 127 128",
    "at 255 256",
    "at 511 512",
  ])
})

test("an attempt that never ends does not block its replacement for ever", async () => {
  const clock = manualClock()
  let attempts = 0
  const backend = new Backend(specOf(), {
    clock,
    open: () => {
      attempts++
      return new Promise<EstablishedConnection>(() => undefined)
    },
    onchange() {},
    onnote() {},
  })
  backend.start()
  await clock.pass(40_000)
  expect(attempts).toBe(2)
})

test("stop aborts an attempt and leaves no timer", async () => {
  const { backend, clock, last } = bench()
  backend.start()
  await settle()
  await backend.stop()
  expect(last().signal.aborted).toBe(true)
  expect(backend.state.kind).toBe("stopped")
  expect(backend.published).toBeUndefined()
  expect(clock.timers).toBe(0)
})

test("an operator's restart during a wait happens at once", async () => {
  const { backend, last, attempts } = bench()
  backend.start()
  await settle()
  last().fails(new Error("no"))
  await settle()
  backend.restart()
  await settle()
  expect(attempts).toHaveLength(2)
  expect(backend.state).toMatchObject({ kind: "recovering", attempt: 0 })
})

/** Opens a backend over a connection whose server has answered one ping. */
async function pinged(spec = specOf()) {
  const { backend, clock, last, ...rest } = bench(spec)
  backend.start()
  await settle()
  const connected = last().opens()
  await clock.pass(30_000)
  expect(connected.pings).toBe(1)
  return { backend, clock, connected, last, ...rest }
}

test("a server that sends nothing for 30 s is pinged, even while requests wait; one that sends something is not [health:pings]", async () => {
  const { clock, connected } = await pinged()
  connected.silentFor = 0
  await clock.pass(30_000)
  expect(connected.pings).toBe(2)
  for (let second = 0; second < 300; second++) {
    connected.lastReceived = clock.now()
    await clock.pass(1000)
  }
  expect(connected.pings).toBe(2)
})

test("two pings in a row without an answer make a server unhealthy; one does not [health:unresponsive]", async () => {
  const { backend, clock, connected } = await pinged()
  connected.answers = "no"
  await clock.pass(30_000)
  expect(backend.facts.responsive).toBe(true)
  connected.answers = "yes"
  await clock.pass(30_000)
  connected.answers = "no"
  await clock.pass(30_000)
  expect(backend.facts.responsive).toBe(true)
  await clock.pass(30_000)
  expect(backend.facts).toMatchObject({ responsive: false, lastError: "does not answer pings" })
  // Whatever it sends shows that it lives.
  connected.lastReceived = clock.now()
  await clock.pass(30_000)
  expect(backend.facts.responsive).toBe(true)
})

test.each(["supervised", "never"] as const)(
  "a process that lives is not ended because it does not answer pings (%s) [health:alive]",
  async (kind) => {
    const { backend, clock, connected, attempts, notes } = await pinged(specOf({ kind }))
    connected.answers = "no"
    connected.silentFor = 1_000_000
    await clock.pass(3_600_000)
    expect([backend.state.kind, connected.closing, attempts.length]).toEqual(["connected", false, 1])
    expect(backend.facts).toMatchObject({ responsive: false, lastError: "does not answer pings", restartCount: 0 })
    expect(notes).toEqual(["does not answer pings"])
    connected.answers = "yes"
    await clock.pass(30_000)
    expect(notes).toEqual(["does not answer pings", "answers pings again"])
  },
)

test.each([STDIO, HTTP])(
  "a server that never answered a ping is not judged by pings (%#) [health:pings]",
  async (launch) => {
    const { backend, clock, last, attempts } = bench(specOf({ kind: "reconnect" }, launch))
    backend.start()
    await settle()
    last().opens().answers = "no"
    await clock.pass(3_600_000)
    expect([backend.state.kind, backend.facts.responsive, attempts.length]).toEqual(["connected", true, 1])
  },
)

test("an error answers a ping, unless it says that the session is gone [health:pings]", async () => {
  const { backend, clock, connected } = await pinged()
  connected.answers = "error"
  await clock.pass(300_000)
  expect(backend.facts.responsive).toBe(true)
  connected.answers = "forgotten"
  await clock.pass(60_000)
  expect(backend.facts.responsive).toBe(false)
})

test("a remote connection is opened anew after two unanswered pings, or if requests wait as long and nothing is received [health:alive]", async () => {
  const idle = await pinged(specOf({ kind: "reconnect" }, HTTP))
  idle.connected.answers = "no"
  await idle.clock.pass(60_000)
  expect([idle.connected.closing, idle.backend.facts.lastError]).toEqual([true, "does not answer pings"])
  // Also if it has never answered a ping.
  const { backend, clock, last } = bench(specOf({ kind: "reconnect" }, HTTP))
  backend.start()
  await settle()
  const busy = last().opens()
  busy.answers = "no"
  busy.silentFor = 59_000
  await clock.pass(30_000)
  expect(busy.closing).toBe(false)
  busy.silentFor = 60_000
  await clock.pass(1000)
  expect([busy.closing, backend.facts.lastError]).toEqual([true, "sent nothing for 1 min while requests waited"])
})

test("unresponsiveTimeout ends a process that sends nothing while requests wait, and no other [health:alive]", async () => {
  const { backend, clock, connected, attempts } = await pinged(specOf({}, STDIO, { unresponsiveTimeout: 8000 }))
  connected.answers = "no"
  await clock.pass(120_000)
  expect(connected.closing).toBe(false)
  connected.silentFor = 7999
  await clock.pass(2000)
  expect(connected.closing).toBe(false)
  connected.silentFor = 8000
  await clock.pass(2000)
  expect([connected.closing, backend.facts.lastError]).toEqual([true, "sent nothing for 8 s while requests waited"])
  expect(connected.abandoned).toMatch(/^sent nothing for 8 s while requests waited; it may have executed this one/)
  await clock.pass(1000)
  expect(attempts).toHaveLength(2)
})

test("unresponsiveTimeout replaces the limit of a remote connection [health:alive]", async () => {
  const { clock, connected } = await pinged(specOf({ kind: "reconnect" }, HTTP, { unresponsiveTimeout: 300_000 }))
  connected.answers = "no"
  connected.silentFor = 299_000
  await clock.pass(300_000)
  expect(connected.closing).toBe(false)
  connected.silentFor = 300_000
  await clock.pass(30_000)
  expect([connected.closing, connected.secondLimit]).toEqual([true, 300_000])
})

test("a 401 makes a backend unauthorized, at the start and while connected", async () => {
  const refusal = new UnauthorizedError("answered 401", "https://idp.example/authorize")
  const first = bench(specOf({ kind: "reconnect" }))
  first.backend.start()
  await settle()
  first.last().fails(refusal)
  await first.clock.pass(300_000)
  expect(first.backend.state.kind).toBe("unauthorized")
  expect(first.backend.facts.authorizationUrl).toBe("https://idp.example/authorize")
  expect(first.attempts).toHaveLength(1)

  const second = bench(specOf({ kind: "reconnect" }))
  second.backend.start()
  await settle()
  second.last().opens()
  await settle()
  second.last().failsRequest(refusal)
  await settle()
  expect(second.backend.state.kind).toBe("unauthorized")
  expect(second.backend.published).toBeUndefined()
})

test("a request that the transport fails is recorded and changes nothing else", async () => {
  const { backend, clock, last } = bench()
  backend.start()
  await settle()
  last().opens()
  await settle()
  last().failsRequest(new Error("answered 502"))
  expect(backend.facts.lastTransportFailure).toEqual({ at: clock.now(), reason: "answered 502" })
  expect(backend.facts.lastError).toBe("answered 502")
  expect(backend.state.kind).toBe("connected")
})

test("a request that failed before the server reconnected, renewed its session or answered another does not count [health:healthy:server]", async () => {
  const { backend, clock, last } = bench(specOf({ kind: "reconnect" }))
  backend.start()
  await settle()
  const first = last().opens()
  await settle()
  last().failsRequest(new Error("ECONNREFUSED"))
  first.lose({ reason: "ECONNREFUSED" })
  await clock.pass(1000)
  last().opens()
  await settle()
  expect(backend.state.kind).toBe("connected")
  expect(backend.facts).toMatchObject({ lastTransportFailure: undefined, lastError: "ECONNREFUSED" })
  last().failsRequest(new Error("ECONNREFUSED"))
  expect(backend.facts.lastTransportFailure).toBeDefined()
  last().renewsSession()
  expect(backend.facts.lastTransportFailure).toBeUndefined()
  last().failsRequest(new Error("answered 500"))
  last().recovers()
  expect(backend.facts.lastTransportFailure).toBeUndefined()
})

test("an observer that throws stops nothing", async () => {
  const { backend, last, notes } = bench(specOf(), {
    onchange: () => {
      throw new Error("broken observer")
    },
  })
  backend.start()
  await settle()
  last().opens()
  await settle()
  expect(backend.state.kind).toBe("connected")
  expect(notes).toContain("an observer failed: broken observer")
})
