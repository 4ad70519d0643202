/** Parallel calls of modern clients over HTTP, which have no session, through one shared legacy stdio server. */
import { beforeEach, describe, expect, test } from "bun:test"
import { Connection } from "../../src/backend/connection.ts"
import { Cancellation } from "../../src/call/cancellation.ts"
import type { Client } from "../../src/call/client.ts"
import type { Gateway } from "../../src/call/ports.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { createMarker, createSealer } from "../../src/lib/seal.ts"
import { SuspendedCalls } from "../../src/session/suspended-calls.ts"
import { createRequestIds, encode, textOf } from "../../src/wire/frame.ts"
import type { Params } from "../../src/wire/message.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"
import { randomFrom } from "../random.ts"

type FromSvc = { id?: string; method?: string; params?: Params; result?: unknown; error?: { code: number } }
type Result = {
  error?: { code: number }
  result?: {
    resultType: string
    inputRequests?: Record<string, { params: { message: string } }>
    requestState?: string
    content?: unknown
  }
}

let clock: ManualClock
let calls: SuspendedCalls
let gateway: Gateway
let server: ReturnType<typeof legacyServer>

/** A legacy server on stdio that does what the test tells it. A cancelled call ends as soon as the server reads of it. */
function legacyServer() {
  /** The ids of the calls in progress, by the `n` of their arguments. */
  const running = new Map<unknown, string>()
  /** The answer to each server request. */
  const answers = new Map<string, FromSvc[]>()
  const connection = new Connection("s", createRequestIds("x"), clock, {
    owner: undefined,
    onprotocolerror: (text) => expect(text).toBeUndefined(),
    onnotification: (method, params, caller) => caller?.notify(method, params),
  })
  const say = (message: object) => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message })))
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(frame) {
      const { id = "", method, params, ...rest } = JSON.parse(String(frame)) as FromSvc
      if (method === "tools/call") running.set((params as { arguments: Params }).arguments.n, id)
      else if (method === "notifications/cancelled") {
        for (const [n, call] of running) if (call === params?.requestId) running.delete(n)
      } else answers.get(id)?.push(rest)
    },
  })
  return {
    connection,
    running,
    answers,
    ask(id: string, message = id, method = "elicitation/create") {
      answers.set(id, [])
      say({ id, method, params: { message } })
    },
    log: (level: string, data: string) => say({ method: "notifications/message", params: { level, data } }),
    end(n: unknown) {
      say({ id: running.get(n), result: { content: [], n } })
      running.delete(n)
    },
  }
}

beforeEach(() => {
  clock = manualClock()
  server = legacyServer()
  let id = 0
  calls = new SuspendedCalls({
    clock,
    sealer: createSealer(new Uint8Array(32).fill(7)),
    newId: () => `c${++id}`,
    onbug: (error) => expect(error).toBeUndefined(),
  })
  const spec = fakeSpec({ requestTimeout: 3_600_000 })
  const peer = fakePeer("legacy")
  const listed = { tools: [{ name: "work", inputSchema: {} }], prompts: [], resources: [], resourceTemplates: [] }
  const catalog = buildCatalog([{ spec, listing: { ...peer, ...listed } }], emptyCatalog())
  gateway = fakeGateway({
    directory: { catalogOf: () => catalog, target: () => ({ spec, connection: server.connection, peer }) },
    tasks: { mark: createMarker(() => new Uint8Array(32)) },
  })
})

const person = (name: string, more: Partial<Client> = {}): Client =>
  fakeClient("modern", {
    principal: name,
    session: {},
    identity: () => name,
    capabilities: { elicitation: {} },
    ...more,
  })

/** Sends one request, as one HTTP POST does. `heard` are the log messages on its stream. */
function send(client: Client, n: unknown, more: object = {}) {
  const cancellation = new Cancellation()
  const heard: unknown[] = []
  const notify = (text: string) => void heard.push(JSON.parse(text).params.data)
  const params = { name: "s_svc_work", arguments: { n }, ...more }
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params } as const
  let result: Result | undefined
  const answer = calls
    .serve({ request, client: { ...client, session: {} }, gateway, exchange: fakeExchange({ cancellation, notify }) })
    .then(({ frame }) => {
      result = JSON.parse(textOf(frame)) as Result
      return result
    })
  return { answer, heard, cancel: () => cancellation.cancel("gone"), result: () => result }
}

const questionsOf = ({ result }: Result = {}) =>
  Object.entries(result?.inputRequests ?? {}).map(([key, { params }]) => [key, params.message] as const)

/** Answers all server requests of a result; the text of each is repeated in its answer. */
const answersTo = (result: Result | undefined) => ({
  requestState: result?.result?.requestState,
  inputResponses: Object.fromEntries(
    questionsOf(result).map(([key, message]) => [key, { action: "accept", content: { to: message } }]),
  ),
})

const ann = person("ann")
const bob = person("bob")

test("a server request during parallel calls of one client reaches the client through one of them [protocol:whose:caller]", async () => {
  const [first, second] = [send(ann, 1), send(ann, 2)]
  await clock.pass(0)
  server.ask("e1")
  await clock.pass(30)
  expect(questionsOf(await first.answer).map(([, message]) => message)).toEqual(["e1"])
  expect(second.result()).toBeUndefined()
  const again = send(ann, 1, answersTo(first.result()))
  await clock.pass(0)
  expect(server.answers.get("e1")).toMatchObject([{ result: { content: { to: "e1" } } }])
  server.end(2)
  server.end(1)
  await clock.pass(0)
  expect([again.result()?.result, second.result()?.result]).toMatchObject([{ n: 1 }, { n: 2 }])
})

test("a server request reaches nobody while another client, or one that svc cannot recognize, has a call in flight [protocol:whose]", async () => {
  for (const other of [bob, person("ann", { identity: undefined })]) {
    server = legacyServer()
    const both = [send(ann, 1), send(other, 2)]
    await clock.pass(0)
    server.ask("e1")
    server.log("info", "secret")
    await clock.pass(29_000)
    expect(server.answers.get("e1")).toEqual([])
    await clock.pass(2000)
    expect(server.answers.get("e1")).toMatchObject([{ error: { code: -32603 } }])
    expect(both.map(({ result, heard }) => [result(), heard])).toEqual([
      [undefined, []],
      [undefined, []],
    ])
  }
})

describe("of several calls", () => {
  test("one that declares the capability carries the server request", async () => {
    const [without, declaring] = [send(person("ann", { capabilities: {} }), 1), send(ann, 2)]
    await clock.pass(0)
    server.ask("e1")
    await clock.pass(30)
    expect(questionsOf(declaring.result())).toHaveLength(1)
    // The other one is away now: the next server request waits for it.
    server.ask("e2")
    await clock.pass(30)
    expect(without.result()).toBeUndefined()
    send(ann, 2, { requestState: declaring.result()?.result?.requestState, inputResponses: {} })
    await clock.pass(30)
    expect(without.result()).toBeUndefined()
  })

  test("none ends if none declares the capability, and the server gets an error", async () => {
    const plain = person("ann", { capabilities: {} })
    const both = [send(plain, 1), send(plain, 2)]
    await clock.pass(0)
    server.ask("e1")
    server.ask("r1", "", "roots/list")
    await clock.pass(30)
    expect(server.answers.get("e1")).toMatchObject([{ error: { code: -32601 } }])
    expect(server.answers.get("r1")).toMatchObject([{ result: { roots: [] } }])
    expect(both.map(({ result }) => result())).toEqual([undefined, undefined])
    expect([...server.running.keys()]).toEqual([1, 2])
  })

  test("one carries all server requests that arrive together, and another the next one", async () => {
    const [first, second] = [send(ann, 1), send(ann, 2)]
    await clock.pass(0)
    server.ask("e1")
    server.ask("e2")
    await clock.pass(30)
    server.ask("e3")
    await clock.pass(30)
    const texts = [first, second].map(({ result }) => questionsOf(result()).map(([, message]) => message))
    expect(texts).toEqual([["e1", "e2"], ["e3"]])
    send(ann, 2, answersTo(second.result()))
    send(ann, 1, answersTo(first.result()))
    await clock.pass(0)
    for (const id of ["e1", "e2", "e3"])
      expect(server.answers.get(id)).toMatchObject([{ result: { content: { to: id } } }])
  })

  test("the next one carries it if the first is answered or cancelled before its client has seen it", async () => {
    const [first, second, third] = [send(ann, 1), send(ann, 2), send(ann, 3)]
    await clock.pass(0)
    server.ask("e1")
    first.cancel()
    await clock.pass(0)
    server.end(2)
    await clock.pass(30)
    expect(second.result()?.result).toMatchObject({ n: 2 })
    expect(questionsOf(third.result()).map(([, message]) => message)).toEqual(["e1"])
    send(ann, 3, answersTo(third.result()))
    await clock.pass(0)
    expect(server.answers.get("e1")).toMatchObject([{ result: { content: { to: "e1" } } }])
  })

  test("the answered one keeps its answer until its client returns with the response", async () => {
    const [first, second] = [send(ann, 1), send(ann, 2)]
    await clock.pass(0)
    server.ask("e1")
    await clock.pass(30)
    server.end(1)
    await clock.pass(0)
    const again = send(ann, 1, answersTo(first.result()))
    await clock.pass(0)
    expect(again.result()?.result).toMatchObject({ n: 1 })
    expect(server.answers.get("e1")).toMatchObject([{ result: { content: { to: "e1" } } }])
    expect(second.result()).toBeUndefined()
    // A second retry with the same response answers nothing.
    expect((await send(ann, 1, answersTo(first.result())).answer).error?.code).toBe(-32602)
    expect(server.answers.get("e1")).toHaveLength(1)
  })

  test("the answered one is given up together with the server request, if its client does not return while others wait", async () => {
    send(ann, 1)
    send(ann, 2)
    await clock.pass(0)
    server.ask("e1")
    await clock.pass(30)
    server.end(1)
    await clock.pass(30_000)
    send(bob, 3)
    await clock.pass(40_000)
    expect(server.answers.get("e1")).toMatchObject([{ error: {} }])
    expect([...server.running.keys()]).toEqual([2, 3])
  })

  test("each gets the log messages of its level, once", async () => {
    const levels = ["debug", "error", undefined, "info"]
    const streams = levels.map((logLevel, n) => send(person("ann", { logLevel }), n))
    await clock.pass(0)
    server.log("info", "a")
    server.log("error", "b")
    expect(streams.map(({ heard }) => heard)).toEqual([["a", "b"], ["b"], [], ["a", "b"]])
  })
})

test("a server request fails if its only call is answered before the client has seen it", async () => {
  const only = send(ann, 1)
  await clock.pass(0)
  server.ask("e1")
  server.end(1)
  await clock.pass(30)
  expect(only.result()?.result).toMatchObject({ n: 1 })
  expect(server.answers.get("e1")).toMatchObject([{ error: { code: -32603 } }])
  expect(server.connection.isAsking).toBe(false)
})

test("a call may run for any time after its client has returned", async () => {
  const first = send(ann, 1)
  await clock.pass(0)
  server.ask("e1")
  await clock.pass(30)
  const again = send(ann, 1, answersTo(first.result()))
  await clock.pass(11 * 60_000)
  expect(again.result()).toBeUndefined()
  expect(server.running.has(1)).toBe(true)
})

test("two principals, at random: a server request reaches its own client and is answered once [protocol:whose:caller]", async () => {
  let shown = 0
  let parallel = 0
  for (let seed = 1; seed <= 60; seed++) {
    server = legacyServer()
    const next = randomFrom(seed)
    const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(next() * all.length)]
    type Open = { who: string; n: string; sent: ReturnType<typeof send>; seen: boolean }
    let open: Open[] = []
    const streams: { who: string; heard: unknown[] }[] = []
    let count = 0
    /** The calls that sent the server requests. */
    const asked = new Map<string, unknown>()
    const begin = (who: string, n: string, more?: object) => {
      const capabilities = next() < 0.8 ? { elicitation: {} } : {}
      const sent = send(person(who, { capabilities, logLevel: pick([undefined, "info", "error"]) }), n, more)
      open.push({ who, n, sent, seen: false })
      streams.push({ who, heard: sent.heard })
    }
    // The name of a call's owner is part of its arguments.
    const ownerOf = (n: unknown) => String(n).split(" ")[0] ?? ""
    const events = [
      () => {
        const who = pick(["ann", "ann", "ann", "bob"]) ?? ""
        begin(who, `${who} ${++count}`)
      },
      () => {
        const n = pick([...server.running.keys()])
        if (n === undefined) return
        asked.set(`e${++count}`, n)
        server.ask(`e${count}`, ownerOf(n))
      },
      () => server.running.size > 0 && server.log("info", ownerOf(pick([...server.running.keys()]))),
      () => {
        // A server answers no call that waits for a client.
        const asking = [...asked.entries()].filter(([id]) => server.answers.get(id)?.length === 0).map(([, n]) => n)
        const n = pick([...server.running.keys()].filter((running) => !asking.includes(running)))
        if (n !== undefined) server.end(n)
      },
      () => pick(open.filter(({ sent }) => sent.result() === undefined))?.sent.cancel(),
      () => {
        const back = pick(open.filter(({ sent }) => sent.result()?.result?.resultType === "input_required"))
        if (back === undefined) return
        open = open.filter((one) => one !== back)
        begin(back.who, back.n, answersTo(back.sent.result()))
      },
    ]
    for (let turn = 0; turn < 150; turn++) {
      pick(events)?.()
      await clock.pass(pick([0, 1, 10, 30, 500]) ?? 0)
      for (const one of open) {
        if (one.seen || one.sent.result() === undefined) continue
        one.seen = true
        for (const [, message] of questionsOf(one.sent.result())) {
          expect([seed, message]).toEqual([seed, one.who])
          shown++
          if (server.running.size > 1) parallel++
        }
      }
    }
    for (const { who, heard } of streams) expect(heard.filter((owner) => owner !== who)).toEqual([])
    // Clients that never return are given up, and every server request gets exactly one answer.
    await clock.pass(11 * 60_000)
    for (const n of [...server.running.keys()]) server.end(n)
    await clock.pass(11 * 60_000)
    for (const [id, answers] of server.answers) expect([seed, id, answers.length]).toEqual([seed, id, 1])
    expect(server.connection.isAsking).toBe(false)
  }
  expect(shown).toBeGreaterThan(100)
  expect(parallel).toBeGreaterThan(50)
})
