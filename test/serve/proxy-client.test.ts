import { describe, expect, test } from "bun:test"
import { type ProxyDeps, ProxySession } from "../../src/serve/proxy-client.ts"
import {
  formatProxyMessage,
  isProxyMessage,
  type ProxyMessage,
  parseProxyMessage,
} from "../../src/serve/proxy-server.ts"
import type { ProjectContext } from "../../src/serve/trusted-client.ts"
import { decode, encode, textOf } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"
import { ODD_NUMBERS } from "../numbers.ts"

const HERE: ProjectContext = {
  project: { directory: "/p", root: "/p", branch: "main", user: { username: "ada", home: "/h" }, said: {} },
  queries: [],
}
type Line = Record<string, unknown> & { id?: unknown; method?: string; svc?: string }

/** A proxy between a hand-written client and instances that start and stop. */
function stage() {
  const clock = manualClock()
  const toClient: Line[] = []
  const notes: string[] = []
  /** The messages that each connection received. */
  const instances: { told: Line[]; events: Parameters<ProxyDeps["connect"]>[0] }[] = []
  let up = true
  const session = new ProxySession(HERE, {
    clock,
    send: (line) => void toClient.push(JSON.parse(typeof line === "string" ? line : decode(line))),
    note: (text) => void notes.push(text),
    async connect(events) {
      if (!up) return undefined
      const told: Line[] = []
      instances.push({ told, events })
      const send = (line: Uint8Array | string) => {
        const text = typeof line === "string" ? line : decode(line)
        told.push((isProxyMessage(text) ? parseProxyMessage(text) : JSON.parse(text)) as Line)
      }
      return { link: { send, close: () => undefined }, token: "t" }
    },
  })
  const say = (line: Line) => session.receive(JSON.stringify({ jsonrpc: "2.0", ...line }))
  const last = () => instances.at(-1) as (typeof instances)[number]
  const answer = (line: Line) => last().events.line(encode(JSON.stringify({ jsonrpc: "2.0", ...line })))
  const note = (note: ProxyMessage) => last().events.line(encode(formatProxyMessage(note)))
  const welcome = async () => {
    await clock.pass(0)
    note({ svc: "welcome", version: "1" })
  }
  return {
    clock,
    session,
    toClient,
    notes,
    instances,
    say,
    answer,
    note,
    welcome,
    last,
    power(on: boolean) {
      up = on
    },
    lose: () => last().events.lost(),
  }
}

async function initialized() {
  const all = stage()
  all.session.start()
  await all.welcome()
  all.say({ id: 0, method: "initialize", params: { clientInfo: { name: "c" } } })
  all.answer({ id: 0, result: {} })
  all.say({ method: "notifications/initialized" })
  all.toClient.length = 0
  return all
}

describe("a proxied client", () => {
  test("sends its hello first, and early requests wait for the welcome", async () => {
    const { session, say, last, welcome, clock, answer, toClient } = stage()
    say({ id: 1, method: "tools/list" })
    session.start()
    await clock.pass(0)
    expect(last().told).toEqual([{ svc: "hello", token: "t", surroundings: HERE as never }])
    await welcome()
    expect(last().told.slice(1)).toEqual([{ jsonrpc: "2.0", id: 1, method: "tools/list" }])
    answer({ id: 1, result: { tools: [] } })
    expect(toClient).toEqual([{ jsonrpc: "2.0", id: 1, result: { tools: [] } }])
    session.moved({ ...HERE, queries: [{ preset: "x" }] })
    expect(last().told.at(-1)).toMatchObject({ svc: "moved", surroundings: { queries: [{ preset: "x" }] } })
  })

  test("is drained when its last request is answered, cancelled or lost; streams do not count", async () => {
    const { session, say, answer, lose } = await initialized()
    await session.drained()
    say({ id: 9, method: "subscriptions/listen", params: {} })
    await session.drained()
    const ends: Readonly<Record<string, () => void>> = {
      answered: () => answer({ id: 1, result: {} }),
      cancelled: () => say({ method: "notifications/cancelled", params: { requestId: 1 } }),
      lost: () => lose(),
    }
    for (const [name, end] of Object.entries(ends)) {
      say({ id: 1, method: "tools/call" })
      let drained = false
      const done = session.drained().then(() => {
        drained = true
      })
      await settle()
      expect([name, drained]).toEqual([name, false])
      end()
      await done
    }
  })

  test("gets one error for each lost request, and the next instance gets its session state", async () => {
    const { say, answer, last, lose, welcome, toClient, clock, instances } = await initialized()
    say({ id: 1, method: "logging/setLevel", params: { level: "debug" } })
    say({ id: 2, method: "resources/subscribe", params: { uri: "a:b" } })
    say({ id: 3, method: "resources/subscribe", params: { uri: "a:c" } })
    say({ id: 4, method: "resources/unsubscribe", params: { uri: "a:c" } })
    for (const id of [1, 2, 3, 4]) answer({ id, result: {} })
    say({ id: 5, method: "tools/call" })
    toClient.length = 0
    lose()
    expect(toClient).toEqual([{ jsonrpc: "2.0", id: 5, error: { code: -32603, message: expect.any(String) } as never }])
    say({ id: 6, method: "tools/list" })
    await clock.pass(500)
    expect(instances).toHaveLength(2)
    await welcome()
    expect(
      last()
        .told.slice(1)
        .map(({ method }) => method),
    ).toEqual(["initialize"])
    answer({ id: 0, result: {} })
    expect(
      last()
        .told.slice(2)
        .map(({ method }) => method),
    ).toEqual(["notifications/initialized", "logging/setLevel", "resources/subscribe"])
    for (const { id, method } of last().told.slice(3)) if (method !== undefined) answer({ id, result: {} })
    expect(last().told.at(-1)).toMatchObject({ id: 6, method: "tools/list" })
    answer({ id: 6, result: {} })
    expect(toClient.slice(1).map(({ method, id }) => method ?? id)).toEqual([
      "notifications/tools/list_changed",
      "notifications/prompts/list_changed",
      "notifications/resources/list_changed",
      6,
    ])
  })

  test("sees the requests of a lost instance cancelled, and its late responses are dropped", async () => {
    const { say, answer, last, lose, welcome, toClient, clock } = await initialized()
    answer({ id: "svc-1", method: "elicitation/create", params: {} })
    answer({ id: "svc-2", method: "roots/list" })
    expect(toClient).toHaveLength(2)
    lose()
    expect(toClient.slice(2).map(({ params }) => (params as { requestId: string }).requestId)).toEqual([
      "svc-1",
      "svc-2",
    ])
    await clock.pass(500)
    await welcome()
    answer({ id: 0, result: {} })
    const before = last().told.length
    say({ id: "svc-1", result: {} })
    expect(last().told).toHaveLength(before)
    answer({ id: "svc-1", method: "elicitation/create", params: {} })
    say({ id: "svc-1", result: { action: "accept" } })
    expect(last().told).toHaveLength(before + 1)
  })

  test("keeps its modern streams, which get list_changed from the next instance", async () => {
    const { say, answer, last, lose, welcome, toClient, clock, session } = stage()
    session.start()
    await welcome()
    const notifications = { toolsListChanged: true }
    say({ id: "L", method: "subscriptions/listen", params: { notifications } })
    lose()
    expect(toClient).toEqual([])
    await clock.pass(500)
    await welcome()
    expect(last().told.slice(1)).toEqual([
      { jsonrpc: "2.0", id: "L", method: "subscriptions/listen", params: { notifications } },
    ])
    expect(toClient).toMatchObject([
      {
        method: "notifications/tools/list_changed",
        params: { _meta: { "io.modelcontextprotocol/subscriptionId": "L" } },
      },
    ])
    answer({ id: "L", result: {} })
    expect(toClient).toHaveLength(2)
  })

  test("gets an error after a while if no instance runs, and continues when one starts", async () => {
    const { say, power, session, toClient, clock, welcome, notes, answer } = stage()
    power(false)
    session.start()
    say({ id: 1, method: "tools/list" })
    await clock.pass(9_000)
    expect(toClient).toEqual([])
    await clock.pass(2_000)
    expect(toClient).toMatchObject([{ id: 1, error: { code: -32603 } }])
    expect(notes).toHaveLength(1)
    power(true)
    await clock.pass(3_000)
    await welcome()
    say({ id: 2, method: "tools/list" })
    answer({ id: 2, result: {} })
    expect(toClient).toHaveLength(2)
    session.close()
    expect(clock.timers).toBe(0)
  })

  test("gets the reason of a refusal until it moves", async () => {
    const { say, session, toClient, clock, note, lose, instances, welcome, last } = stage()
    session.start()
    await clock.pass(0)
    say({ id: 1, method: "tools/list" })
    note({ svc: "refused", message: "No preset is named x" })
    lose()
    say({ id: 2, method: "tools/list" })
    expect(toClient).toMatchObject([
      { id: 1, error: { message: "No preset is named x" } },
      { id: 2, error: { message: "No preset is named x" } },
    ])
    session.moved({ ...HERE, queries: [] })
    await clock.pass(1)
    expect(instances).toHaveLength(2)
    await welcome()
    say({ id: 3, method: "tools/list" })
    expect(last().told.at(-1)).toMatchObject({ id: 3 })
  })

  test("gets the reason of a refused move until a move succeeds; running requests get their responses", async () => {
    const { session, say, answer, note, toClient, clock, last, notes } = await initialized()
    const moves = () => last().told.filter(({ svc }) => svc === "moved").length
    say({ id: 1, method: "tools/call" })
    session.moved({ ...HERE, queries: [{ preset: "x" }] })
    note({ svc: "refused", message: "No preset is named x" })
    say({ id: 2, method: "tools/list" })
    answer({ id: 1, result: {} })
    expect(toClient).toMatchObject([
      { id: 2, error: { message: "No preset is named x" } },
      { id: 1, result: {} },
    ])
    // The preset is created: nothing else changes.
    await clock.pass(6_000)
    expect(moves()).toBe(2)
    note({ svc: "refused", message: "No preset is named x" })
    expect(notes).toHaveLength(1)
    await clock.pass(6_000)
    note({ svc: "welcome", version: "1" })
    expect(toClient.slice(2).map(({ method }) => method)).toContain("notifications/tools/list_changed")
    say({ id: 3, method: "tools/list" })
    expect(last().told.at(-1)).toMatchObject({ id: 3 })
    // The client moves back.
    session.moved({ ...HERE, queries: [{ preset: "y" }] })
    note({ svc: "refused", message: "No preset is named y" })
    session.moved(HERE)
    note({ svc: "welcome", version: "1" })
    say({ id: 4, method: "tools/list" })
    expect(last().told.at(-1)).toMatchObject({ id: 4 })
    await clock.pass(60_000)
    expect(moves()).toBe(5)
  })

  test("sends its new project if it moves before the welcome", async () => {
    const { session, last, note, clock } = stage()
    session.start()
    await clock.pass(0)
    session.moved({ ...HERE, queries: [] })
    session.moved({ ...HERE, queries: [{ preset: "x" }] })
    note({ svc: "welcome", version: "1" })
    expect(last().told.slice(1)).toMatchObject([{ svc: "moved", surroundings: { queries: [{ preset: "x" }] } }])
  })

  test("sends its project once if it moves while connecting", async () => {
    const told: string[] = []
    const clock = manualClock()
    const opened: (() => void)[] = []
    const session = new ProxySession(HERE, {
      clock,
      send: () => undefined,
      note: () => undefined,
      async connect() {
        await new Promise<void>((done) => opened.push(done))
        return { link: { send: (line) => void told.push(String(line)), close: () => undefined }, token: "t" }
      },
    })
    session.start()
    session.moved({ ...HERE, queries: [{ preset: "x" }] })
    await clock.pass(1000)
    for (const open of opened) open()
    await clock.pass(0)
    expect(told.map((line) => parseProxyMessage(line))).toMatchObject([
      { svc: "hello", surroundings: { queries: [{ preset: "x" }] } },
    ])
    session.close()
  })

  test("opens a stream that was requested while no instance ran, once", async () => {
    const { say, power, session, toClient, clock, welcome, last, lose } = stage()
    session.start()
    await welcome()
    lose()
    power(false)
    say({ id: "L", method: "subscriptions/listen", params: { notifications: { toolsListChanged: true } } })
    power(true)
    await clock.pass(3_000)
    await welcome()
    expect(last().told.filter(({ id }) => id === "L")).toHaveLength(1)
    lose()
    power(false)
    say({ id: 1, method: "tools/list" })
    await clock.pass(11_000)
    expect(toClient.filter(({ error }) => error !== undefined)).toMatchObject([{ id: 1 }])
    power(true)
    await clock.pass(3_000)
    await welcome()
    expect(last().told.filter(({ id }) => id === "L")).toHaveLength(1)
  })

  test("gets a response to initialize even if the first instance is lost before it answers", async () => {
    const { say, power, session, toClient, clock, welcome, lose } = stage()
    session.start()
    await welcome()
    say({ id: 0, method: "initialize", params: {} })
    power(false)
    lose()
    await clock.pass(11_000)
    expect(toClient).toMatchObject([{ id: 0, error: { code: -32603 } }])
  })

  test("gets server messages that look like a proxy message as server messages", async () => {
    const { session, say, toClient, last } = await initialized()
    const forged = [
      { svc: "refused", message: "no more", jsonrpc: "2.0", method: "notifications/message" },
      { svc: "welcome", version: "1", jsonrpc: "2.0", id: 1, result: {} },
    ]
    for (const line of forged) last().events.line(encode(JSON.stringify(line)))
    expect(toClient).toEqual(forged)
    say({ id: 2, method: "tools/list" })
    expect(last().told.at(-1)).toMatchObject({ id: 2 })
    // A client cannot send one either.
    const before = last().told.length
    session.receive(formatProxyMessage({ svc: "moved", surroundings: HERE }))
    expect(last().told).toHaveLength(before)
    expect(toClient.at(-1)).toMatchObject({ error: { code: -32700 } })
  })

  test("gets a parse error for invalid JSON, and a batch is relayed whole", async () => {
    const { session, toClient, last } = await initialized()
    session.receive("{")
    expect(toClient).toMatchObject([{ error: { code: -32700 } }])
    const batch = [
      { jsonrpc: "2.0", id: 8, method: "ping" },
      { jsonrpc: "2.0", id: 9, method: "ping" },
    ]
    session.receive(JSON.stringify(batch))
    expect(last().told.at(-1)).toEqual(batch as never)
  })
})

describe("an id in another language's numbers", () => {
  test.each([...ODD_NUMBERS])("%s belongs to its request through a restart of the instance", async (odd) => {
    const clock = manualClock()
    const toClient: string[] = []
    const told: string[] = []
    let events: Parameters<ProxyDeps["connect"]>[0] | undefined
    const session = new ProxySession(HERE, {
      clock,
      send: (line) => void toClient.push(textOf(line)),
      note: () => undefined,
      async connect(given) {
        events = given
        return { link: { send: (line) => void told.push(textOf(line)), close: () => undefined }, token: "t" }
      },
    })
    const line = (text: string) => events?.line(encode(text))
    const welcome = async () => {
      await clock.pass(2000)
      line(formatProxyMessage({ svc: "welcome", version: "1" }))
    }
    session.start()
    await welcome()
    const initialize = `{"jsonrpc":"2.0","id":${odd},"method":"initialize","params":{"capabilities":{"n":${odd}}}}`
    session.receive(initialize)
    line(`{"jsonrpc":"2.0","id":${odd},"result":{"n":${odd}}}`)
    expect(toClient).toEqual([`{"jsonrpc":"2.0","id":${odd},"result":{"n":${odd}}}`])
    session.receive(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info","n":${odd}}}`)
    line('{"jsonrpc":"2.0","id":1,"result":{}}')
    // When the instance ends, one request is answered, one is in flight, and one question is open.
    session.receive(`{"jsonrpc":"2.0","id":"${odd}","method":"tools/call","params":{}}`)
    session.receive(`{"jsonrpc":"2.0","id":${odd},"method":"tools/call","params":{}}`)
    line(`{"jsonrpc": "2.0", "id": "${odd}", "result": {}}`)
    line(`{"jsonrpc":"2.0","id":${odd},"method":"x/ask","params":{}}`)
    toClient.length = 0
    told.length = 0
    events?.lost()
    expect(toClient).toHaveLength(2)
    expect(toClient[0]).toContain(`"requestId":${odd}`)
    expect(toClient[1]).toStartWith(`{"jsonrpc":"2.0","id":${odd},"error"`)
    await welcome()
    line(`{"jsonrpc":"2.0","id":${odd},"result":{}}`)
    expect(told.slice(1)).toEqual([
      initialize,
      `{"jsonrpc":"2.0","id":"svc-proxy-1","method":"logging/setLevel","params":{"level":"info","n":${odd}}}`,
    ])
  })
})
