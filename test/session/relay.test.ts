/** The fast path and the slow path of an answer give the same JSON, whatever a backend writes. */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { Caller } from "../../src/backend/attribution.ts"
import { UndeliveredError } from "../../src/backend/client-transport.ts"
import { Connection } from "../../src/backend/connection.ts"
import type { Directory } from "../../src/call/ports.ts"
import { narrow, type Scope } from "../../src/catalog/scope.ts"
import type { ServerSpec } from "../../src/config/server-spec.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { BackendError } from "../../src/lib/errors.ts"
import { createMarker } from "../../src/lib/seal.ts"
import { createRequestIds, decode, encode } from "../../src/wire/frame.ts"
import type { Id } from "../../src/wire/message.ts"
import { AGGREGATE, fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

type Era = "legacy" | "modern"
type Answer = { readonly [key: string]: unknown; readonly result?: Record<string, unknown> }
type Case = {
  readonly method: string
  readonly id: Id
  readonly client: Era
  readonly peer: Era
  readonly plain: boolean
}

const ids = createRequestIds("Rand0m")
const spec = fakeSpec()
const SERVER: Scope = { kind: "server", id: "s" }

/** Returns the client's parsed answer when the backend answers with the frame that `write` creates for the request's id. */
async function relayed({ method, id, client, peer, plain }: Case, write: (id: string) => string): Promise<unknown> {
  const connection = new Connection("s", ids, systemClock, {
    owner: undefined,
    callerOfTask: () => undefined,
    onprotocolerror: (text: string) => expect(text).toBe(""),
    onnotification() {},
  } as never)
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(frame) {
      const sent = JSON.parse(String(frame)) as { id?: string; method?: string }
      // In a larger buffer, like a line in a chunk: the bytes around it must not change.
      const bytes = encode(`##${write(sent.id ?? "")}##`)
      if (sent.method === method) queueMicrotask(() => connection.receive(bytes.subarray(2, -2)))
      queueMicrotask(() => expect(decode(bytes.subarray(0, 2)) + decode(bytes.subarray(-2))).toBe("####"))
    },
  })
  const who = fakeClient(client, { scope: plain ? SERVER : AGGREGATE })
  const gateway = fakeGateway({
    tasks: { mark: createMarker(() => new Uint8Array(32)) },
    directory: { target: () => ({ spec, connection, peer: fakePeer(peer) }) },
  })
  const route = { id: "s", slug: "s", name: "t", mirrored: [] }
  const request = { jsonrpc: "2.0" as const, id, method, params: { name: "t", uri: "u" } }
  const call = { request, gateway, client: who, exchange: fakeExchange() }
  const relaying = Promise.resolve(gateway.toServer(call, { name: "t", uri: "u" }, route))
  const { frame } = await relaying.catch((error: unknown) => ({ frame: JSON.stringify({ thrown: String(error) }) }))
  return JSON.parse(typeof frame === "string" ? frame : decode(frame))
}

test("an answer that comes after another replica may have started the server reaches nobody [cluster:one:fencing]", async () => {
  const tuning = { ...spec.tuning, replicas: "one" as const }
  for (const mayRun of [true, false]) {
    const { text } = await relayedOver([], {
      spec: { ...spec, tuning, launch: { transport: "stdio" } as ServerSpec["launch"] },
      directory: { mayRun: () => mayRun },
    })
    expect(text).toContain(mayRun ? '"result":{"content":[]}' : "has moved to another replica of svc")
  }
})

/** Relays a call over connections that each accept it and fail in this way, until one answers. Returns the events. */
async function relayedOver(
  failures: readonly Error[],
  more: { readonly spec?: ServerSpec; readonly directory?: Partial<Directory> } = {},
): Promise<{ readonly sent: number; readonly text: string }> {
  let sent = 0
  const connections = [...failures, undefined].map((failure) => {
    const connection = new Connection("s", ids, systemClock, { owner: undefined } as never)
    connection.attach({
      pid: undefined,
      buffered: 0,
      close: async () => undefined,
      send(frame) {
        const { id } = JSON.parse(String(frame)) as { id: string }
        const answer = encode(JSON.stringify({ jsonrpc: "2.0", id, result: { content: [] } }))
        const number = ids.parse(id) as number
        sent++
        queueMicrotask(() => (failure === undefined ? connection.receive(answer) : connection.fail(number, failure)))
      },
    })
    return connection
  })
  let at = 0
  const gateway = fakeGateway({
    directory: {
      target: () => ({ spec: more.spec ?? spec, connection: connections[at] as Connection, peer: fakePeer("modern") }),
      whenReplaced: async () => void at++,
      ...more.directory,
    },
  })
  const request = { jsonrpc: "2.0" as const, id: 1, method: "tools/call", params: { name: "t" } }
  const call = { request, gateway, client: fakeClient("legacy"), exchange: fakeExchange() }
  const { frame } = await gateway.toServer(call, { name: "t" }, { id: "s", slug: "s", name: "t", mirrored: [] })
  return { sent, text: typeof frame === "string" ? frame : decode(frame) }
}

test("a call that a replica has not accepted goes to the next owner of its server, and no other call does [cluster:one:waits]", async () => {
  const unseen = new UndeliveredError("s")
  expect(await relayedOver([unseen, unseen])).toEqual({
    sent: 3,
    text: expect.stringContaining('"result":{"content":[]}'),
  })
  const lost = await relayedOver([new BackendError("s", "has lost its replica")])
  expect(lost).toEqual({ sent: 1, text: expect.stringContaining("s has lost its replica") })
})

/** Keys and texts that svc searches for, or that resemble its own. */
const WORDS = ["uri", "resultType", "taskId", "task", "_meta", "content", "type", "id", "jsonrpc", "result", "contents"]
const TEXTS = [
  "input_required",
  "complete",
  "task",
  "resource_link",
  "resource",
  `","id":"${ids.text(1)}"}`,
  `{"jsonrpc":"2.0","id":"${ids.text(1)}","result":{`,
  '"uri"',
  "\u001b[31m",
  "\ud83d\ude00",
  "\ud800",
  "\u2028",
  "\\u0075ri",
]
const key = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...WORDS) }, fc.string())
const text = fc.oneof(fc.constantFrom(...TEXTS), fc.string({ unit: "binary" }), fc.string())
const { value } = fc.letrec<{ value: unknown; object: Record<string, unknown> }>((tie) => ({
  object: fc.dictionary(key, tie("value"), { maxKeys: 5 }),
  value: fc.oneof(
    { depthSize: "small" },
    text,
    fc.constantFrom(null, true, false, 0, -1, 1e21, 0.1),
    fc.array(tie("value"), { maxLength: 4 }),
    tie("object"),
  ),
}))
const block = fc.record(
  {
    type: fc.constantFrom("text", "resource_link", "resource"),
    uri: fc.webUrl(),
    text,
    resource: fc.record({ uri: fc.webUrl(), text }, { requiredKeys: [] }),
  },
  { requiredKeys: [] },
)
const result = fc
  .tuple(
    fc.dictionary(key, value, { maxKeys: 5 }),
    fc.record(
      {
        content: fc.array(block, { maxLength: 3 }),
        contents: fc.array(block, { maxLength: 2 }),
        messages: fc.array(fc.record({ role: fc.constant("user"), content: block }), { maxLength: 2 }),
        resultType: fc.constantFrom("complete", "input_required", "task"),
        taskId: fc.constantFrom("t1", 7),
        isError: fc.boolean(),
        ttlMs: fc.constantFrom(0, "long"),
        _meta: fc.record(
          { "io.modelcontextprotocol/serverInfo": fc.constantFrom({ name: "s" }, 1), own: fc.boolean() },
          { requiredKeys: [] },
        ),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([any, known]) => ({ ...any, ...known }))
const CASE = fc.record<Case>({
  method: fc.constantFrom("tools/call", "resources/read", "prompts/get", "completion/complete"),
  id: fc.oneof(fc.integer(), fc.string(), fc.constant("a much longer id than the one that svc gives by itself to it")),
  client: fc.constantFrom<Era>("legacy", "modern"),
  peer: fc.constantFrom<Era>("legacy", "modern"),
  plain: fc.boolean(),
})

/** Returns the same JSON with every `step`-th letter of its strings written as an escape. */
function escaped(json: string, step: number): string {
  let count = 0
  return json.replace(/"(?:[^"\\]|\\.)*"/g, (string) =>
    string.replace(/\\u....|\\.|[a-z_A-Z]/g, (one) =>
      one.length === 1 && ++count % step === 0 ? `\\u00${one.charCodeAt(0).toString(16)}` : one,
    ),
  )
}

/** Returns the different notations of an answer, all of the same JSON. */
const SHAPES: readonly ((id: string, result: string) => string)[] = [
  (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body}}`,
  (id, body) => `{"result":${body},"jsonrpc":"2.0","id":"${id}"}`,
  (id, body) => `{"jsonrpc":"2.0","result":${body},"id":"${id}"}`,
  (id, body) => `{"id":"${id}","jsonrpc":"2.0","result":${body}}`,
  (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body}, "extra": {"uri": 1}}`,
  (id, body) => `{"jsonrpc": "2.0", "id": "${id}", "result": ${body}}`,
]
/** A notation that can never pass unchanged. */
const SLOW = (id: string, body: string) => `\r\n{\t"jsonrpc" : "2.0" , "id" : "${id}" , "result" : ${body} } `

test("an answer is the same JSON on both paths, however it is written", async () => {
  await fc.assert(
    fc.asyncProperty(CASE, result, fc.nat(SHAPES.length - 1), fc.nat(4), async (how, body, shape, step) => {
      const json = JSON.stringify(body)
      const written = step === 0 ? json : escaped(json, step)
      expect(JSON.parse(written)).toEqual(JSON.parse(json))
      const write = SHAPES[shape] as (typeof SHAPES)[number]
      const { extra: _, ...fast } = (await relayed(how, (id) => write(id, written))) as Answer
      const slow = (await relayed(how, (id) => SLOW(id, json))) as Answer
      // A search in the bytes does not notice that a `resultType` is nested more deeply than it must be.
      if (how.client === "modern" && fast.result?.resultType === undefined && written.includes('"resultType"'))
        for (const added of ["resultType", "ttlMs", "cacheScope"])
          if (fast.result?.[added] === undefined) delete slow.result?.[added]
      expect(fast).toEqual(slow)
      if (!("thrown" in fast)) expect(fast.id).toEqual(how.id)
    }),
    { numRuns: 500 },
  )
})

test("a result that needs no change arrives as it was written, with duplicate keys and long numbers", async () => {
  const body = '{"a":1,"a":12345678901234567890,"b":1.0,"c":{"deep":[[[[{"x":1e400}]]]]},"d":"\\ud83d\\ude00\\/"}'
  const how: Case = { method: "tools/call", id: 7, client: "legacy", peer: "legacy", plain: false }
  for (const write of SHAPES.slice(0, 3)) {
    const seen = await relayed(how, (id) => write(id, body))
    expect(seen).toEqual({ jsonrpc: "2.0", id: 7, result: JSON.parse(body) })
  }
})

/** Frames in place of one whose answer is `result`, each with the error that its caller gets. */
const BROKEN: readonly (readonly [what: string, write: (id: string, result: string) => string, reason: string])[] = [
  ["a second id", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"id":1}`, "duplicate member"],
  [
    "a second id, escaped",
    (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"\\u0069d":1}`,
    "duplicate member",
  ],
  ["a first id", (id, body) => `{"jsonrpc":"2.0","id":1,"result":${body},"id":"${id}"}`, "duplicate member"],
  [
    "its own id again",
    (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"id":"${id}"}`,
    "duplicate member",
  ],
  ["a second result", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"result":{}}`, "duplicate member"],
  ["a first result", (id, body) => `{"result":{},"result":${body},"jsonrpc":"2.0","id":"${id}"}`, "duplicate member"],
  [
    "a second version",
    (id, body) => `{"jsonrpc":"2.0","result":${body},"jsonrpc":"2.0","id":"${id}"}`,
    "duplicate member",
  ],
  ["an error too", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"error":{}}`, "invalid message"],
  ["a null error too", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"error":null}`, "invalid message"],
  ["a method too", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body},"method":"ping"}`, "invalid message"],
  [
    "a method first",
    (id, body) => `{"method":"ping","jsonrpc":"2.0","result":${body},"id":"${id}"}`,
    "invalid message",
  ],
  ["no version", (id, body) => `{"result":${body},"id":"${id}"}`, "invalid message"],
  ["another version", (id, body) => `{"jsonrpc":"1.0","id":"${id}","result":${body}}`, "invalid message"],
  ["no JSON", (id) => `{"jsonrpc":"2.0","id":"${id}","result":{ nope }}`, "not JSON"],
  ["no JSON, with the id last", (id) => `{"jsonrpc":"2.0","result":{ nope },"id":"${id}"}`, "not JSON"],
  ["a line break in a text", (id) => `{"jsonrpc":"2.0","id":"${id}","result":{"a":"\n"}}`, "not JSON"],
  ["text behind it", (id, body) => `{"jsonrpc":"2.0","id":"${id}","result":${body}} and more }`, "not JSON"],
  ["another frame behind it", (id, body) => SLOW(id, body).repeat(2), "not JSON"],
  [
    "nesting that breaks a parser's stack",
    (id) => `{"jsonrpc":"2.0","id":"${id}","result":{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}}`,
    "deeper than 512 levels",
  ],
  [
    "the same with the id last",
    (id) => `{"jsonrpc":"2.0","result":{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}},"id":"${id}"}`,
    "deeper than 512 levels",
  ],
]

describe("a frame that is not exactly one answer fails its call under the server's name [protocol:answer:checked]", () => {
  for (const [what, write, reason] of BROKEN)
    test(what, async () => {
      const body = '{"content":[],"taskId":"t"}'
      for (const method of ["tools/call", "completion/complete"])
        for (const client of ["legacy", "modern"] as const)
          for (const peer of ["legacy", "modern"] as const)
            for (const plain of [true, false]) {
              const seen = await relayed({ method, id: 7, client, peer, plain }, (id) => write(id, body))
              const said = JSON.stringify(seen)
              expect(seen).toMatchObject({
                id: 7,
                ...(method === "tools/call" ? { result: { isError: true } } : { error: {} }),
              })
              expect(said).toContain("s: sent ")
              expect(said).toContain(reason)
            }
    })
})

test("an error arrives with members that JSON-RPC does not define", async () => {
  const error = { code: -32000, message: "no", data: { a: 1 }, hint: "later" }
  for (const client of ["legacy", "modern"] as const)
    for (const method of ["tools/call", "prompts/get"]) {
      const write = (id: string) => JSON.stringify({ jsonrpc: "2.0", id, error, _meta: { x: 1 } })
      const answer = await relayed({ method, id: 7, client, peer: client, plain: true }, write)
      expect(answer).toEqual({ jsonrpc: "2.0", id: 7, error, _meta: { x: 1 } })
    }
})

test("a revision that a server refuses to svc is not the client's", async () => {
  const error = { code: -32022, message: "Unsupported protocol version", data: { supported: ["2027-01-01"] } }
  // To a legacy client, the code of a legacy server means nothing.
  for (const [client, peer] of [
    ["legacy", "modern"],
    ["modern", "modern"],
    ["modern", "legacy"],
  ] as const) {
    const write = (id: string) => JSON.stringify({ jsonrpc: "2.0", id, error })
    const answer = await relayed({ method: "prompts/get", id: 7, client, peer, plain: true }, write)
    expect(JSON.stringify(answer)).toContain("s: no longer accepts the protocol revision of its connection")
    expect(JSON.stringify(answer)).not.toMatch(/-32022|supported"/)
  }
})

test("an error without a code or a message arrives as an error under the server's name", async () => {
  const how: Case = { method: "prompts/get", id: 7, client: "legacy", peer: "legacy", plain: false }
  for (const [error, words] of [
    ['{"message":"boom"}', ": boom"],
    ['{"code":"E","message":"boom"}', ": boom"],
    ['{"code":1.5,"message":"boom"}', ": boom"],
    ['{"code":1,"message":{"toString":1}}', ""],
    ["{}", ""],
  ] as const)
    expect(await relayed(how, (id) => `{"jsonrpc":"2.0","id":"${id}","error":${error}}`)).toMatchObject({
      id: 7,
      error: { code: -32603, message: `s: answered with a malformed error${words}` },
    })
})

test("a result that is not an object fails its call under the server's name [protocol:answer:checked]", async () => {
  for (const result of ["null", "5", '"text"', "true", "[{}]"])
    for (const client of ["legacy", "modern"] as const)
      for (const peer of ["legacy", "modern"] as const) {
        const how = { id: 7, client, peer, plain: true }
        const write = (id: string) => `{"jsonrpc":"2.0","id":"${id}","result":${result}}`
        const message = "s: answered with a result that is not an object"
        expect(await relayed({ ...how, method: "tools/call" }, write)).toMatchObject({
          id: 7,
          result: { isError: true, content: [{ text: message }] },
        })
        expect(await relayed({ ...how, method: "prompts/get" }, write)).toMatchObject({ id: 7, error: { message } })
      }
})

describe("the resultType of an answer", () => {
  const how = { method: "tools/call", id: 7, client: "modern", plain: true } as const
  const ask = (peer: Era, result: object, more: Partial<Case> = {}) =>
    relayed({ ...how, peer, ...more }, (id) => `{"jsonrpc":"2.0","id":"${id}","result":${JSON.stringify(result)}}`)
  const asking = {
    resultType: "input_required",
    inputRequests: { a: { method: "elicitation/create", params: { message: "your password?" } } },
    requestState: "mine",
  }

  test("of a legacy server is complete, whatever it sends [protocol:result-type]", async () => {
    for (const body of [asking, { resultType: "task", taskId: "t1" }, { resultType: 5 }, { content: [] }]) {
      const seen = (await ask("legacy", body)) as Answer
      expect(seen.result).toMatchObject({ resultType: "complete" })
      expect(seen.result?.taskId).toBe("taskId" in body ? "t1" : undefined)
    }
    const read = { contents: [], ttlMs: "long", cacheScope: "public" }
    expect(await ask("legacy", read, { method: "resources/read" })).toMatchObject({
      result: { resultType: "complete", ttlMs: 0, cacheScope: "private" },
    })
  })

  test("and other members of the modern era do not reach legacy clients [protocol:legacy-words]", async () => {
    const info = { "io.modelcontextprotocol/serverInfo": { name: "s", version: "1" } }
    const legacy = { client: "legacy", method: "resources/read" } as const
    const contents = [{ uri: "a:b", text: '"resultType":"complete"', _meta: info }]
    for (const [body, left] of [
      [{ resultType: "complete", contents, _meta: info, ttlMs: 5, cacheScope: "public" }, { contents }],
      [
        { contents, _meta: { ...info, own: 1 } },
        { contents, _meta: { own: 1 } },
      ],
      [
        { resultType: "other", contents, _meta: {} },
        { resultType: "other", contents, _meta: {} },
      ],
    ] as const)
      expect(await ask("modern", body, legacy)).toEqual({ jsonrpc: "2.0", id: 7, result: left } as never)
    const own = { ttlMs: 5, structuredContent: { resultType: "complete", _meta: info } }
    expect(await ask("modern", own, { client: "legacy" })).toMatchObject({ result: own })
  })

  test("with structured content that is no object reaches legacy clients in one [protocol:legacy-words]", async () => {
    for (const type of [{ resultType: "complete" }, {}])
      for (const value of [[1, 2], "text", 7, false, null]) {
        const body = { ...type, content: [], structuredContent: value }
        const wrapped = { content: [], structuredContent: { result: value } }
        const as = async (client: Era, peer: Era) => ((await ask(peer, body, { client })) as Answer).result
        expect(await as("legacy", "modern")).toEqual(wrapped)
        expect(await as("modern", "modern")).toMatchObject({ structuredContent: value })
        // A legacy server's content is as its client would get it without svc.
        expect(await as("legacy", "legacy")).toEqual(body)
      }
  })

  test("of a modern server fails the call if it may not send it to this client [protocol:result-type]", async () => {
    for (const [body, reason] of [
      [{ resultType: 5 }, "s: answered with a resultType that is no string"],
      [{ resultType: "complete", a: [{ resultType: "complete" }] }, undefined],
      [{ resultType: "other" }, undefined],
      [{ resultType: "task", taskId: "t1" }, "s: answered tools/call with a task, which the client does not support"],
      [asking, "s: requested elicitation/create, which the client does not support"],
    ] as const) {
      const { result } = (await ask("modern", body)) as Answer
      if (reason === undefined) expect(result).toEqual(body)
      else expect(result).toEqual({ resultType: "complete", content: [{ type: "text", text: reason }], isError: true })
    }
    const legacy = (await ask("modern", { resultType: 5 }, { client: "legacy" })) as Answer
    expect(legacy.result).toMatchObject({ isError: true })
  })
})

test("a session's own process reaches its client outside of calls only while the client may see the server [auth:tags:streams]", async () => {
  let tags = ["web"]
  const own = { ...fakeSpec({ isolation: "session" }) }
  const specNow = () => ({ ...own, tuning: { ...own.tuning, tags } })
  let owner: Caller | undefined
  const gateway = fakeGateway({
    directory: {
      target: () => ({ spec: specNow(), connection: undefined as never, peer: fakePeer("legacy") }),
      async dedicated(_id, opened) {
        owner = opened
        return "is stopped"
      },
    },
  })
  const heard: string[] = []
  const stream = fakeExchange({
    notify: (text) => void heard.push(JSON.parse(text).params.data),
    ask: async () => "asked",
  })
  const client = fakeClient("legacy", {
    owner: stream,
    scope: narrow(AGGREGATE, "web", (seen) => seen.includes("web")),
  })
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "t" } } as const
  const route = { id: "s", slug: "s", name: "t", mirrored: [] }
  await gateway.toServer({ request, gateway, client, exchange: fakeExchange() }, request.params, route)
  const say = (data: string) => owner?.notify("notifications/message", { level: "info", data })
  const ask = () => owner?.ask("roots/list", undefined, new AbortController().signal)
  say("before")
  expect(await ask()).toBe("asked" as never)
  tags = ["other"]
  say("without the tag")
  await expect(ask()).rejects.toThrow("may no longer use this server")
  tags = ["other", "web"]
  say("after")
  expect(heard).toEqual(["before", "after"])
})
