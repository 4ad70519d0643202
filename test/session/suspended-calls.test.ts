import { beforeEach, describe, expect, test } from "bun:test"
import { errorAnswer } from "../../src/call/answer.ts"
import { type Client, type Exchange, lackingCapability, missingCapability } from "../../src/call/client.ts"
import type { Gateway } from "../../src/call/ports.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { narrow } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { createMarker, createSealer } from "../../src/lib/seal.ts"
import { SuspendedCalls } from "../../src/session/suspended-calls.ts"
import { encode } from "../../src/wire/frame.ts"
import type { Params, Request } from "../../src/wire/message.ts"
import { type ManualClock, manualClock } from "../clock.ts"
import { AGGREGATE, fakeConnection, fakeExchange, fakeGateway } from "../fakes.ts"

type Sent = { id?: string; method?: string; params?: { name?: string }; result?: unknown; error?: { code: number } }

/** A legacy server with a tool `ask` that asks two questions during the call and returns the answers. */
function backend() {
  const sent: Sent[] = []
  const answers: unknown[] = []
  let call = ""
  const write = (frame: string) => queueMicrotask(() => connection.receive(encode(frame)))
  const say = (message: object) => write(JSON.stringify({ jsonrpc: "2.0", ...message }))
  /** Writes something other than the answer to the call. */
  let ending: ((id: string) => string) | undefined
  const connection = fakeConnection(clock, (frame) => {
    const message = JSON.parse(String(frame)) as Sent
    sent.push(message)
    if (message.method === "tools/call") {
      call = message.id ?? ""
      say({ id: "e1", method: "elicitation/create", params: { message: "Name?" } })
    } else if (message.id === "e1" && message.result !== undefined) {
      answers.push(message.result)
      say({ id: "e2", method: "elicitation/create", params: { message: "Age?" } })
    } else if (message.id === "e2" && message.result !== undefined) {
      answers.push(message.result)
      if (ending !== undefined) write(ending(call))
      else say({ id: call, result: { content: [{ type: "text", text: JSON.stringify(answers) }] } })
    }
  })
  const progress = (done: number) =>
    say({ method: "notifications/progress", params: { progressToken: call, progress: done } })
  const endWith = (frame: (id: string) => string) => {
    ending = frame
  }
  return { connection, sent, progress, endWith }
}

const spec = {
  id: "s",
  name: "s",
  slug: "s",
  secrets: [],
  launch: {},
  tuning: { disabledTools: [], toolDescriptionOverrides: {}, requestTimeout: 600_000 },
} as unknown as ServerSpec
const listing = {
  era: "legacy",
  protocolVersion: "2025-11-25",
  serverInfo: {},
  capabilities: {},
  instructions: undefined,
  tools: [{ name: "ask", inputSchema: {} }],
  prompts: [],
  resources: [],
  resourceTemplates: [],
} as const
const client: Client = {
  era: "modern",
  protocolVersion: "2026-07-28",
  info: {},
  capabilities: { elicitation: {} },
  principal: "me",
  session: {},
  scope: AGGREGATE,
  logLevel: undefined,
}

let clock: ManualClock
let calls: SuspendedCalls
let gateway: Gateway
let server: ReturnType<typeof backend>
let exchange: Exchange

beforeEach(() => {
  clock = manualClock()
  server = backend()
  let id = 0
  calls = new SuspendedCalls({
    clock,
    sealer: createSealer(new Uint8Array(32).fill(7)),
    newId: () => `c${++id}`,
    onbug: (error) => expect(error).toBeUndefined(),
  })
  exchange = fakeExchange()
  const catalog = buildCatalog([{ spec, listing }], emptyCatalog())
  gateway = fakeGateway({
    directory: { catalogOf: () => catalog, target: () => ({ spec, connection: server.connection, peer: listing }) },
    tasks: { mark: createMarker(() => new Uint8Array(32)) },
  })
})

const request = (id: number, more: object = {}): Request => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name: "s_svc_ask", arguments: { a: 1 }, ...more },
})
type Answer = {
  id: number
  result?: {
    resultType: string
    inputRequests: Record<string, { params: { message: string } }>
    requestState: string
    content: { text: string }[]
  }
  error?: { code: number }
}
const serve = async (asked: Request, who: Client = client): Promise<Answer> => {
  const answer = calls.serve({ request: asked, client: who, gateway, exchange })
  // svc collects questions for a moment.
  await clock.pass(30)
  const { frame } = await answer
  return JSON.parse(typeof frame === "string" ? frame : new TextDecoder().decode(frame))
}

test("server requests during a call reach the client as results, and its responses reach the waiting call", async () => {
  const first = await serve(request(1))
  expect(first.result?.resultType).toBe("input_required")
  const [key, question] = Object.entries(first.result?.inputRequests ?? {})[0] ?? []
  expect(question?.params.message).toBe("Name?")
  const second = await serve(
    request(2, {
      requestState: first.result?.requestState,
      inputResponses: { [key ?? ""]: { action: "accept", content: { n: "Ada" } } },
    }),
  )
  const [next] = Object.keys(second.result?.inputRequests ?? {})
  const third = await serve(
    request(3, { requestState: second.result?.requestState, inputResponses: { [next ?? ""]: { action: "decline" } } }),
  )
  expect(third.id).toBe(3)
  expect(third.result?.resultType).toBe("complete")
  expect(JSON.parse(third.result?.content[0]?.text ?? "")).toEqual([
    { action: "accept", content: { n: "Ada" } },
    { action: "decline" },
  ])
  expect(server.sent.filter(({ method }) => method === "tools/call")).toHaveLength(1)
})

test("progress has the token of the request that waits, not of the request that began the call", async () => {
  const heard: unknown[] = []
  exchange = fakeExchange({ notify: (text) => heard.push(JSON.parse(text).params) })
  const wanting = (progressToken: unknown) => ({ _meta: { progressToken } })
  const first = await serve(request(1, wanting("one")))
  server.progress(1)
  await clock.pass(1)
  // In between, no request is open.
  expect(heard).toEqual([])
  const [key = ""] = Object.keys(first.result?.inputRequests ?? {})
  const retry = { requestState: first.result?.requestState, inputResponses: { [key]: {} }, ...wanting(2) }
  const readiness = calls.serve({ request: request(2, retry), client, gateway, exchange })
  server.progress(2)
  await clock.pass(30)
  await readiness
  expect(heard).toEqual([{ progressToken: 2, progress: 2 }])
})

test("a retry whose headers disagree with its body is refused, and the call keeps waiting", async () => {
  const first = await serve(request(1))
  const retry = request(2, { requestState: first.result?.requestState, inputResponses: {} })
  const verify = () => errorAnswer(2, -32020, "Header mismatch")
  expect(await calls.serve({ request: retry, client, gateway, exchange, verify })).toMatchObject({ code: -32020 })
  expect((await serve(retry)).result?.inputRequests).toEqual(first.result?.inputRequests as never)
})

test("a server request without a response is sent to the client again", async () => {
  const first = await serve(request(1))
  const again = await serve(request(2, { requestState: first.result?.requestState, inputResponses: { other: {} } }))
  expect(again.result?.inputRequests).toEqual(first.result?.inputRequests as never)
})

test("a state for a client of another replica is refused for another client of it [cluster:one:clients]", async () => {
  const [mine, yours] = ["mine", "yours"].map((behalf) => ({ ...client, principal: "replica", behalf }))
  const { result } = await serve(request(1), mine)
  const state = result?.requestState ?? ""
  expect((await serve(request(2, { requestState: state }), yours)).error?.code).toBe(-32602)
  expect((await serve(request(3, { requestState: state }), mine)).result).toBeDefined()
})

test("a state that was changed, of another principal or scope, or on another request is refused", async () => {
  const { result } = await serve(request(1))
  const state = result?.requestState ?? ""
  const flipped = state.slice(0, -1) + (state.endsWith("A") ? "B" : "A")
  expect((await serve(request(2, { requestState: flipped }))).error?.code).toBe(-32602)
  expect((await serve(request(3, { requestState: state }), { ...client, principal: "you" })).error?.code).toBe(-32602)
  const narrowed = { ...client, scope: narrow(AGGREGATE, "tags", () => true) }
  expect((await serve(request(3, { requestState: state }), narrowed)).error?.code).toBe(-32602)
  expect((await serve(request(4, { requestState: state, arguments: { a: 2 } }))).error?.code).toBe(-32602)
  expect((await serve(request(5, { requestState: state, inputResponses: { q1: 7 } }))).error?.code).toBe(-32602)
})

test("a client without the capability for a server request gets -32021, and the call ends", async () => {
  const { error } = await serve(request(1), { ...client, capabilities: {} })
  expect(error).toMatchObject({ code: -32021, data: { requiredCapabilities: { elicitation: {} } } } as never)
  await clock.pass(0)
  expect(server.sent.some(({ method }) => method === "notifications/cancelled")).toBe(true)
})

test("a client that supports only forms gets no URL to open, and a client that supports only URLs gets no form", () => {
  const lacks = (elicitation: unknown, params: Params | undefined) =>
    missingCapability({ elicitation }, "elicitation/create", params)
  const page = { mode: "url" }
  for (const forms of [{}, { form: {} }]) {
    expect(lacks(forms, undefined)).toBeUndefined()
    expect(lacks(forms, { mode: "form" })).toBeUndefined()
    expect(lacks(forms, page)).toEqual({ elicitation: { url: {} } })
  }
  expect(lacks({ url: {} }, page)).toBeUndefined()
  expect(lacks({ url: {} }, undefined)).toEqual({ elicitation: { form: {} } })
  expect(lacks({ url: {}, form: {} }, undefined)).toBeUndefined()
})

test("a client without tools in sampling gets no tools, and a mode that it does not declare is -32602", () => {
  const tools = { tools: [], messages: [] }
  expect(missingCapability({ sampling: {} }, "sampling/createMessage", tools)).toEqual({ sampling: { tools: {} } })
  expect(missingCapability({ sampling: { tools: {} } }, "sampling/createMessage", tools)).toBeUndefined()
  expect(missingCapability({ sampling: {} }, "sampling/createMessage", { messages: [] })).toBeUndefined()
  const refusal = (capabilities: Params, method: string, params: Params) => {
    const missing = missingCapability(capabilities, method, params)
    if (missing === undefined) return undefined
    const { code, message } = lackingCapability(missing, capabilities, method)
    return [code, message]
  }
  const url = "Client does not support url elicitation."
  const form = "Client does not support form elicitation."
  expect(refusal({ elicitation: { form: {} } }, "elicitation/create", { mode: "url" })).toEqual([-32602, url])
  expect(refusal({ elicitation: { url: {} } }, "elicitation/create", {})).toEqual([-32602, form])
  expect(refusal({}, "elicitation/create", {})).toEqual([-32601, form])
  expect(refusal({}, "elicitation/create", { mode: "url" })).toEqual([-32601, url])
  const noTools = "Method not found: the client does not support sampling/createMessage with tools"
  expect(refusal({ sampling: {} }, "sampling/createMessage", tools)).toEqual([-32601, noTools])
})

test("a server that requests the roots of a client without roots gets an empty list, and the call goes on", async () => {
  const first = calls.serve({ request: request(1), client, gateway, exchange })
  server.connection.receive(encode('{"jsonrpc":"2.0","id":"r1","method":"roots/list"}'))
  await clock.pass(30)
  expect(server.sent.find(({ id }) => id === "r1")?.result).toEqual({ roots: [] })
  expect(JSON.parse(String((await first).frame)).result.inputRequests).toMatchObject({
    q1: { method: "elicitation/create" },
  })
})

test("a client that gives up ends the call in the backend", async () => {
  const first = await serve(request(1))
  calls.close()
  expect(server.sent.some(({ method }) => method === "notifications/cancelled")).toBe(true)
  expect((await serve(request(2, { requestState: first.result?.requestState }))).error?.code).toBe(-32602)
})

describe("a client that does not come back with its response", () => {
  const cancelled = () => server.sent.some(({ method }) => method === "notifications/cancelled")

  test("has ten minutes while no other client uses the server", async () => {
    const first = await serve(request(1))
    await clock.pass(9 * 60_000)
    expect(cancelled()).toBe(false)
    expect((await serve(request(2, { requestState: first.result?.requestState }))).result).toBeDefined()
    await clock.pass(11 * 60_000)
    expect(cancelled()).toBe(true)
  })

  test("has one minute if other clients wait, and its late retry is refused", async () => {
    const first = await serve(request(1))
    const { connection } = server
    const caller = { session: {}, notify() {}, ask: async () => ({}) }
    await clock.pass(30_000)
    connection.request({ method: "tools/list", params: {}, caller, timeout: 600_000 }).outcome.catch(() => undefined)
    await clock.pass(29_000)
    expect(cancelled()).toBe(false)
    await clock.pass(2000)
    expect(cancelled()).toBe(true)
    expect((await serve(request(2, { requestState: first.result?.requestState }))).error?.code).toBe(-32602)
  })
})

test("the retry of a suspended call gets an error if the server's answer is invalid", async () => {
  for (const ending of ["{ nope }", `{},"id":1`, `{"a":${"[".repeat(600)}${"]".repeat(600)}}`]) {
    server.endWith((id) => `{"jsonrpc":"2.0","id":"${id}","result":${ending}}`)
    let answer = await serve(request(1))
    for (const id of [2, 3]) {
      const { inputRequests = {}, requestState } = answer.result ?? {}
      const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: "decline" }]))
      answer = await serve(request(id, { inputResponses, requestState }))
    }
    expect(answer).toMatchObject({ id: 3, result: { isError: true } })
    expect(answer.result?.content[0]?.text).toStartWith("s: sent ")
  }
})
