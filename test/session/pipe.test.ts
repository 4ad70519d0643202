/** Numbers between a client and a backend, as text on both sides, through all code that reads them. */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { Connection } from "../../src/backend/connection.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { createSealer } from "../../src/lib/seal.ts"
import { Pipe } from "../../src/session/pipe.ts"
import { Sessions } from "../../src/session/sessions.ts"
import { SuspendedCalls } from "../../src/session/suspended-calls.ts"
import { createRequestIds, encode, textOf } from "../../src/wire/frame.ts"
import { manualClock, settle } from "../clock.ts"
import { AGGREGATE, fakeGateway, fakeSpec } from "../fakes.ts"
import { NUMBER, NUMBERS, ODD_NUMBERS } from "../numbers.ts"

type Era = "legacy" | "modern"

const spec = fakeSpec()

/** A hand-written client of one era and a hand-written backend of another. */
function stage(client: Era, peer: Era) {
  const clock = manualClock()
  const toClient: string[] = []
  const toBackend: string[] = []
  const connection = new Connection("s", createRequestIds("x"), clock, {
    owner: undefined,
    onprotocolerror: (text) => expect(text).toBe(""),
    onnotification: (method, params, caller) => caller?.notify(method, params),
  })
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send: (frame) => void toBackend.push(textOf(frame)),
  })
  const listing = {
    era: peer,
    protocolVersion: peer === "legacy" ? "2025-11-25" : "2026-07-28",
    serverInfo: {},
    capabilities: { tasks: {} },
    instructions: undefined,
    tools: [{ name: "t" }],
    prompts: [],
    resources: [],
    resourceTemplates: [],
  }
  const catalog = buildCatalog([{ spec, listing }], emptyCatalog())
  const gateway = fakeGateway({
    directory: { catalogOf: () => catalog, target: () => ({ spec, connection, peer: listing }) },
  })
  const onbug = (error: unknown) => expect(error).toBeUndefined()
  const sealer = createSealer(new Uint8Array(32).fill(7))
  let ids = 0
  const pipe = new Pipe({
    gateway,
    scope: AGGREGATE,
    id: "p",
    principal: "me",
    sessions: new Sessions(
      clock,
      { count: 10, ttl: 1e9 },
      () => undefined,
      () => undefined,
    ),
    suspendedCalls: new SuspendedCalls({ clock, sealer, newId: () => `c${++ids}`, onbug }),
    send: (frame) => void toClient.push(textOf(frame)),
  })
  /** Each function takes a frame and returns the messages sent to either side since. */
  const after = async (act: () => void) => {
    toClient.length = 0
    toBackend.length = 0
    act()
    await clock.pass(30)
    return { toClient: toClient.join("\n"), toBackend: toBackend.join("\n") }
  }
  const say = (text: string) => after(() => pipe.receive(text))
  return {
    /** Ends running requests as svc does when it stops. */
    end: (reason: string) => after(() => pipe.end(reason)),
    async open() {
      const params = '{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{}}'
      if (client === "legacy") await say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`)
    },
    client: say,
    drained: () => pipe.drained(),
    backend: (text: string) => after(() => connection.receive(encode(text))),
    /** Makes a call. `more` are further members of its params, and `meta` further members of `_meta`. */
    call(id: string, meta: string, more: string) {
      const modern =
        '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},'
      const params = `{"name":"s_svc_t",${more},"_meta":{${client === "modern" ? modern : ""}${meta}}}`
      return say(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":${params}}`)
    },
  }
}

const lastId = (text: string): string => /"id":("svcx\.\d+")/.exec(text)?.[1] ?? ""

describe("[relay:numbers] a number arrives unchanged", () => {
  const cases = (["legacy", "modern"] as const).flatMap((client) =>
    (["legacy", "modern"] as const).flatMap((peer) => [
      [client, peer, "as it is", ""] as const,
      [client, peer, "rewritten", '{"type":"resource_link","uri":"a:b"}'] as const,
    ]),
  )
  test.each(cases)(
    "from a %s client to a %s server and back, where the result is %s",
    async (client, peer, _, block) => {
      const one = async (numbers: readonly string[], [id, again, token, asked]: readonly string[]) => {
        const [args, meta, said, data, question, reply, result] = numbers
        const { open, call, client: say, backend } = stage(client, peer)
        await open()
        const answer = (to: string, body: string) => backend(`{"jsonrpc":"2.0","id":${to},"result":${body}}`)
        const wait = `"progressToken":${token},"m":${meta}`
        const first = (await call(id as string, wait, `"arguments":${args}`)).toBackend
        expect(first).toContain(`"arguments":${args}`)
        expect(first).toContain(`"m":${meta}`)
        const number = lastId(first)

        const progress = `"progress":${asked},"total":${token},"more":${said}}`
        const notified = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`
        expect((await backend(`${notified}${number},${progress}}`)).toClient).toBe(`${notified}${token},${progress}}`)
        const logged = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${data}}}`
        expect((await backend(logged)).toClient).toBe(logged)

        // A question in mid-call, in the form of each side's era.
        const asks = `"method":"elicitation/create","params":{"message":"?","q":${question}}`
        const put = await (peer === "legacy"
          ? backend(`{"jsonrpc":"2.0","id":${asked},${asks}}`)
          : answer(number, `{"resultType":"input_required","inputRequests":{"k":{${asks}}},"requestState":"s"}`))
        expect(put.toClient).toContain(asks)
        const state = /"requestState":"([^"]+)"/.exec(put.toClient)?.[1]
        if (client === "modern") expect(put.toClient).toContain(`{"jsonrpc":"2.0","id":${id},"result":`)
        const given = `{"action":"accept","content":{"a":${reply}}}`
        const key = /"inputRequests":\{"(\w+)"/.exec(put.toClient)?.[1]
        const more = `"arguments":${args},"inputResponses":{"${key}":${given}},"requestState":"${state}"`
        const told = (
          await (client === "legacy"
            ? say(`{"jsonrpc":"2.0","id":"svc-1","result":${given}}`)
            : call(again as string, wait, more))
        ).toBackend
        if (peer === "legacy") expect(told).toBe(`{"jsonrpc":"2.0","id":${asked},"result":${given}}`)
        else {
          expect(told).toContain(`"inputResponses":{"k":${given}}`)
          expect(told).toContain(`"arguments":${args}`)
        }

        const body = `"content":[${block}],"structuredContent":{"r":${result}},"_meta":{"m":${meta}}`
        const ended = await answer(peer === "legacy" ? number : lastId(told), `{${body}}`)
        const shown = body.replace('"uri":"', '"uri":"svc://s/')
        const to = client === "legacy" ? id : again
        const complete = '"resultType":"complete"'
        const members = peer === "modern" && block !== "" ? [shown, complete] : [complete, shown]
        const whole = client === "modern" ? members.join() : shown
        expect(ended.toClient).toBe(`{"jsonrpc":"2.0","id":${to},"result":{${whole}}}`)
      }
      for (const odd of ODD_NUMBERS)
        await one(
          Array.from({ length: 7 }, () => `{"n":${odd}}`),
          Array.from({ length: 4 }, () => odd),
        )
      await fc.assert(
        fc.asyncProperty(
          fc.array(
            NUMBERS.map((json) => `{"n":${json}}`),
            { minLength: 7, maxLength: 7 },
          ),
          fc.array(NUMBER, { minLength: 4, maxLength: 4 }),
          one,
        ),
        { numRuns: 40 },
      )
    },
  )

  test("in an error, with its code and its data", async () => {
    for (const [client, peer] of [
      ["legacy", "legacy"],
      ["modern", "legacy"],
      ["legacy", "modern"],
    ] as const) {
      const { open, call, backend } = stage(client, peer)
      await open()
      const number = lastId((await call("1.0", '"m":1', '"arguments":{}')).toBackend)
      const error = '"error":{"code":-32000.0,"message":"no","data":{"n":[9007199254740993,1.0]}}'
      const { toClient } = await backend(`{"jsonrpc":"2.0","id":${number},${error}}`)
      expect(toClient).toBe(`{"jsonrpc":"2.0","id":1.0,${error}}`)
    }
  })
})

test("a list of tasks holds their numbers as the server wrote them", async () => {
  const { open, call, client, backend } = stage("legacy", "legacy")
  await open()
  const number = lastId((await call("1", '"m":1', '"arguments":{},"task":{"ttl":1.0}')).toBackend)
  const task = (id: string) => `"taskId":"${id}","status":"working","ttl":9007199254740993,"pollInterval":1E5`
  const made = await backend(`{"jsonrpc":"2.0","id":${number},"result":{"task":{${task("t1")}}}}`)
  expect(made.toClient).toBe(`{"jsonrpc":"2.0","id":1,"result":{"task":{${task("s_svc_t1.m")}}}}`)
  const asked = lastId((await client('{"jsonrpc":"2.0","id":2.0,"method":"tasks/list"}')).toBackend)
  const listed = await backend(`{"jsonrpc":"2.0","id":${asked},"result":{${task("t1")}}}`)
  expect(listed.toClient).toBe(`{"jsonrpc":"2.0","id":2.0,"result":{"tasks":[{${task("s_svc_t1.m")}}]}}`)
})

describe("an id", () => {
  test("is another if it is written otherwise, and each request has its own answer", async () => {
    for (const era of ["legacy", "modern"] as const) {
      const { open, call, client, backend } = stage(era, "legacy")
      await open()
      const ids = ["9007199254740992", "9007199254740993", "1", "1.0", '"1"', '"1.0"', "1e400", "2e400"]
      const numbers: string[] = []
      for (const id of ids) numbers.push(lastId((await call(id, '"m":1', '"arguments":{}')).toBackend))
      // One that is cancelled has no answer; the others do not hear of it.
      for (const cancelled of [1, 3, 7]) {
        const params = `{"requestId":${ids[cancelled]}}`
        const { toBackend } = await client(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`)
        expect(toBackend).toContain(`"requestId":${numbers[cancelled]}`)
        expect(toBackend.split("\n")).toHaveLength(1)
      }
      for (const [at, id] of ids.entries()) {
        const { toClient } = await backend(`{"jsonrpc":"2.0","id":${numbers[at]},"result":{"resultType":"complete"}}`)
        expect(toClient).toBe(
          [1, 3, 7].includes(at) ? "" : `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete"}}`,
        )
      }
    }
  })

  test("comes back as written in svc's own answers, whatever is wrong with the request", async () => {
    const { open, client } = stage("legacy", "legacy")
    await open()
    for (const odd of ODD_NUMBERS)
      for (const [request, answer] of [
        ['"method":"ping"', '"result":{}'],
        ['"method":"tools/call","params":{"name":1.0}', '"error":{"code":-32602,"message":"Unknown tool: 1.0"}'],
        ['"method":"x/y"', '"error":{"code":-32601,"message":"Method not found: x/y"}'],
        ['"method":7.0', '"error":{"code":-32600,"message":"\\"method\\" must be a string"}'],
        ['"method":"ping","params":1.0', '"error":{"code":-32600,"message":"\\"params\\" must be an object"}'],
      ])
        expect((await client(`{"jsonrpc":"2.0","id":${odd},${request}}`)).toClient).toBe(
          `{"jsonrpc":"2.0","id":${odd},${answer}}`,
        )
  })
})

test("a pipe is drained when its last request is answered", async () => {
  const { open, call, backend, drained } = stage("legacy", "legacy")
  await open()
  await drained()
  const { toBackend } = await call("1", "", '"arguments":{}')
  let isDrained = false
  const done = drained().then(() => {
    isDrained = true
  })
  await settle()
  expect(isDrained).toBe(false)
  await backend(`{"jsonrpc":"2.0","id":${lastId(toBackend)},"result":{"content":[]}}`)
  await done
})

test("a ping before initialize is answered at once, in its place among refused messages", async () => {
  const { client } = stage("legacy", "legacy")
  const { toClient } = await client('[{"jsonrpc":"2.0","id":"p","method":"ping"},{"jsonrpc":"2.0","id":7}]')
  expect(toClient.split("\n").map((line) => JSON.parse(line).id)).toEqual(["p", 7])
})

test("a request that runs when svc stops is answered with the reason", async () => {
  const { open, client, end } = stage("legacy", "legacy")
  await open()
  await client('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"s_svc_t"}}')
  const { toClient } = await end("svc is shutting down")
  expect(JSON.parse(toClient)).toMatchObject({
    id: 7,
    result: { isError: true, content: [{ text: expect.stringContaining("svc is shutting down") }] },
  })
})

test("a request that is cancelled before initialize is answered is neither passed on nor answered", async () => {
  const { client, open } = stage("legacy", "legacy")
  const load = open()
  const said = client('{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"s_svc_t"}}')
  const cancelled = client('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}')
  await load
  const sent = [await said, await cancelled].map(({ toClient, toBackend }) => toClient + toBackend).join("")
  expect(sent).not.toContain("tools/call")
  expect(sent).not.toContain('"id":5')
})
