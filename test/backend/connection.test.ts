/** One connection: attribution of messages, invalid messages, and requests that end. */
import { beforeEach, describe, expect, test } from "bun:test"
import { type Caller, DOUBT_MS } from "../../src/backend/attribution.ts"
import type { ClientTransport } from "../../src/backend/client-transport.ts"
import { Connection } from "../../src/backend/connection.ts"
import { peerError } from "../../src/backend/peer-error.ts"
import { createRequestIds, encode } from "../../src/wire/frame.ts"
import type { Params } from "../../src/wire/message.ts"
import { type ManualClock, manualClock, settle } from "../clock.ts"

type Sent = { id?: string; method?: string; result?: unknown; error?: { message: string } }

let clock: ManualClock
let sent: Sent[]
let heard: (readonly [caller: Caller | undefined, method: string])[]
let connection: Connection
let reported: string[]

const open = (transport: Partial<ClientTransport> = {}, owner?: Caller) => {
  connection = new Connection("s", createRequestIds("x"), clock, {
    owner,
    callerOfTask: (id) => (id === "t1" ? ann.caller : undefined),
    onprotocolerror: (text) => void reported.push(text),
    ping: (timeout) => connection.ask("ping", {}, timeout).then(() => undefined),
    onnotification: (method, _params, caller) => void heard.push([caller, method]),
  })
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send: (frame) => void sent.push(JSON.parse(String(frame))),
    ...transport,
  })
}

const person = (name: string) => {
  const asked: unknown[] = []
  const told: Params[] = []
  const caller: Caller = {
    session: {},
    notify: (_method, params) => void told.push(params),
    async ask(_method, params) {
      asked.push(params)
      return { by: name }
    },
  }
  return { caller, asked, told }
}
let ann: ReturnType<typeof person>
let bob: ReturnType<typeof person>

beforeEach(() => {
  clock = manualClock()
  sent = []
  heard = []
  reported = []
  ann = person("ann")
  bob = person("bob")
  open()
})

const call = ({ caller }: { caller: Caller }, method = "tools/call", progressToken?: number) => {
  const flight = connection.request({ method, params: {}, caller, timeout: 300_000, progressToken })
  flight.outcome.catch(() => undefined)
  return flight.number
}
const receive = (message: object, related?: number) =>
  connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message })), related)
const ask = async (params: object = {}, related?: number) => {
  receive({ id: "e", method: "elicitation/create", params }, related)
  await settle()
  return sent.at(-1)
}

test("a server request is for the only client with calls in flight", async () => {
  call(ann)
  call(ann)
  expect(await ask()).toMatchObject({ id: "e", result: { by: "ann" } })
})

test("a server request of a dedicated process goes to a call in flight if there is one, else to the owner", async () => {
  const outside = person("outside")
  open({}, { ...outside.caller, session: ann.caller.session })
  expect(await ask()).toMatchObject({ result: { by: "outside" } })
  call(ann)
  expect(await ask()).toMatchObject({ result: { by: "ann" } })
  receive({ method: "notifications/message" })
  expect(heard).toEqual([[ann.caller, "notifications/message"]])
})

test("an invalid answer fails the request that it names, at once", async () => {
  for (const broken of [{}, { error: "boom" }, { jsonrpc: "1.0", result: {} }]) {
    const flight = connection.request({ method: "tools/call", params: {}, caller: ann.caller, timeout: 300_000 })
    receive({ id: sent.at(-1)?.id, ...broken })
    expect(await flight.outcome.catch(String)).toContain("invalid message")
  }
})

test("an unreadable frame fails the request that it names at its head or its end, at once", async () => {
  const name = (id: string | undefined) => `"id":"${id}"`
  for (const write of [
    (id?: string) => `{"jsonrpc":"2.0",${name(id)},"result":{ nope }}`,
    (id?: string) => `{"jsonrpc":"2.0","result":{"a":"${"a".repeat(5000)}\t"},${name(id)}}`,
    (id?: string) => `[{"jsonrpc":"2.0",${name(id)},"result":{}},`,
    (id?: string) => `[7,{"jsonrpc":"2.0",${name(id)},"result":{},"result":{}}]`,
  ]) {
    const flight = connection.request({ method: "tools/call", params: {}, caller: ann.caller, timeout: 300_000 })
    connection.receive(encode(write(sent.at(-1)?.id)))
    expect(await flight.outcome.catch(String)).toContain("s: sent ")
  }
})

test("an invalid message of a batch does not affect the others", async () => {
  const flights = [ann, bob].map(({ caller }) =>
    connection.request({ method: "tools/call", params: {}, caller, timeout: 300_000 }),
  )
  const [first, second] = sent.map(({ id }) => id)
  connection.receive(
    encode(
      `[7,{"jsonrpc":"2.0","id":"${first}","result":{},"id":1},{"jsonrpc":"2.0","id":"${second}","result":{"a":1}}]`,
    ),
  )
  expect(await flights[0]?.outcome.catch(String)).toContain("duplicate member")
  expect(await flights[1]?.outcome).toMatchObject({ message: { result: { a: 1 } } })
})

test("answers to no request are ignored, and a result without an id answers nothing", async () => {
  const flight = connection.request({ method: "tools/call", params: {}, caller: ann.caller, timeout: 300_000 })
  for (const noise of [{ result: {} }, { id: null, result: {} }, { id: 1, result: {} }, { id: "svcx.01", result: {} }])
    receive(noise, flight.number)
  receive({ error: { code: 1, message: "m" } })
  receive({ error: { code: 1 } })
  receive({ error: { code: 1, message: "what?" } }, flight.number)
  expect(await flight.outcome).toMatchObject({ message: { error: { message: "what?" } } })
})

test("a server request that is also an answer is sent to no client", async () => {
  call(ann)
  receive({ id: "e", method: "elicitation/create", params: {}, result: {} })
  connection.receive(encode('{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{},"params":{"a":1}}'))
  connection.receive(encode('{"jsonrpc":"2.0","method":"notifications/message","method":"notifications/other"}'))
  await settle()
  expect([ann.asked, heard]).toEqual([[], []])
})

test("a server request prefers a call whose client is still connected", async () => {
  const left = { ...ann.caller, isConnected: () => false, ask: () => Promise.reject(new Error("nobody is there")) }
  const outside = person("outside")
  for (const owner of [undefined, { ...outside.caller, session: ann.caller.session }]) {
    open({}, owner)
    call({ caller: left })
    call(ann)
    expect(await ask()).toMatchObject({ result: { by: "ann" } })
  }
})

test("a process is asking while a call waits for the input that it requested [sleep:needed]", async () => {
  const end = connection.waitForInput()
  expect(connection.isAsking).toBe(true)
  await clock.pass(5000)
  end()
  expect([connection.isAsking, connection.lastUsed]).toEqual([false, clock.now()])
})

test("a process counts as used until its call was cancelled [sleep:idle]", async () => {
  const cancelled = call(ann)
  await clock.pass(5000)
  connection.cancel(cancelled, new Error("cancelled"))
  expect(connection.lastUsed).toBe(clock.now())
})

describe("a server request that could be of two clients", () => {
  const answered = (number: number) => receive({ id: createRequestIds("x").text(number), result: {} })

  test("is held, and refused if both are left after a while [protocol:whose]", async () => {
    call(ann)
    call(bob)
    const before = sent.length
    await ask()
    expect(connection.isAsking).toBe(true)
    await clock.pass(DOUBT_MS - 500)
    expect(sent).toHaveLength(before)
    await clock.pass(1000)
    expect(sent.at(-1)?.error?.message).toMatch(/several clients.*"isolation": "session"/)
    expect([ann.asked, bob.asked, connection.isAsking]).toEqual([[], [], false])
  })

  test("goes to the one that is left as soon as the calls of the other are answered [protocol:whose:held]", async () => {
    const [first, second] = [call(ann), call(ann)]
    call(bob)
    await ask()
    answered(first)
    await settle()
    expect(bob.asked).toEqual([])
    // A call that began later cannot have sent it.
    call(ann)
    answered(second)
    await settle()
    expect(sent.at(-1)).toMatchObject({ id: "e", result: { by: "bob" } })
    expect([ann.asked.length, bob.asked.length]).toEqual([0, 1])
  })

  test("is held while a call that was cancelled meanwhile may have sent it", async () => {
    const cancelled = call(ann)
    call(bob)
    await ask()
    connection.cancel(cancelled, new Error("cancelled"))
    receive({ id: createRequestIds("x").text(cancelled), error: { code: 0, message: "stopped, and no longer asks" } })
    await clock.pass(DOUBT_MS - 500)
    expect([ann.asked, bob.asked, connection.isAsking]).toEqual([[], [], true])
    await clock.pass(1000)
    expect(sent.at(-1)?.error?.message).toContain("several clients")
  })

  test("goes to the one that is left when the other has ended its session, before and after it came [protocol:whose:held]", async () => {
    let hasEnded = false
    const gone = {
      caller: {
        ...ann.caller,
        session: {
          get hasEnded() {
            return hasEnded
          },
        },
      },
    }
    const first = call(gone)
    call(bob)
    await ask()
    connection.cancel(first, new Error("its session ended"))
    await clock.pass(1000)
    expect(bob.asked).toEqual([])
    hasEnded = true
    await clock.pass(1000)
    expect(sent.at(-1)).toMatchObject({ id: "e", result: { by: "bob" } })
    expect(await ask()).toMatchObject({ id: "e", result: { by: "bob" } })
    expect(ann.asked).toEqual([])
  })

  test("is refused if the one that is left has cancelled its call", async () => {
    const [first, second] = [call(ann), call(bob)]
    await ask()
    connection.cancel(second, new Error("cancelled"))
    answered(first)
    await settle()
    expect(sent.at(-1)?.error?.message).toContain("has ended")
    expect([ann.asked, bob.asked]).toEqual([[], []])
  })

  test("is dropped if the server withdraws it", async () => {
    call(ann)
    call(bob)
    await ask()
    receive({ method: "notifications/cancelled", params: { requestId: "e" } })
    expect(connection.isAsking).toBe(false)
    await clock.pass(DOUBT_MS + 1000)
    expect(sent.filter(({ id }) => id === "e")).toEqual([])
  })

  test("is refused at once if a hundred others are held", async () => {
    call(ann)
    call(bob)
    for (let n = 0; n < 100; n++) receive({ id: `q${n}`, method: "elicitation/create" })
    expect((await ask())?.error?.message).toContain("too many")
  })
})

test("a notification that could be of two clients is sent to neither, and one without any call is for all", () => {
  receive({ method: "notifications/message", params: {} })
  call(ann)
  call(bob)
  receive({ method: "notifications/message", params: {} })
  const [all, neither] = heard.map(([caller]) => caller)
  expect(all).toBeUndefined()
  expect(neither).toBeDefined()
  expect([ann.caller, bob.caller]).not.toContain(neither as Caller)
})

test("drained resolves when the last client's request ends, however it ends", async () => {
  const own = connection.ask("ping", {}, 300_000)
  await connection.drained()
  const ends: readonly ((number: number) => void)[] = [
    (number) => receive({ id: createRequestIds("x").text(number), result: {} }),
    (number) => connection.cancel(number, new Error("cancelled")),
    (number) => connection.fail(number, new Error("failed")),
    () => connection.end({ reason: "lost" }),
  ]
  for (const end of ends) {
    const [first, last] = [call(ann), call(bob)]
    let drained = false
    const done = connection.drained().then(() => {
      drained = true
    })
    connection.cancel(first, new Error("cancelled"))
    await settle()
    expect(drained).toBe(false)
    end(last)
    await done
  }
  expect(await own.catch(String)).toContain("lost")
})

describe("a client that cancelled its call", () => {
  test("still counts, because the call may send a server request yet [protocol:whose:gone]", async () => {
    connection.cancel(call(ann), new Error("cancelled"))
    call(bob)
    await ask()
    await clock.pass(DOUBT_MS)
    expect(sent.at(-1)?.error?.message).toContain("several clients")
    expect(bob.asked).toEqual([])
    // The time of doubt is over: only what came in it could be of the cancelled call.
    expect(await ask()).toMatchObject({ result: { by: "bob" } })
  })

  test("does not count against itself", async () => {
    connection.cancel(call(ann), new Error("cancelled"))
    call(ann)
    expect(await ask()).toMatchObject({ result: { by: "ann" } })
  })

  test("does not count after a late answer, nor for a server request that waits for it", async () => {
    for (const isEarly of [true, false]) {
      open()
      const late = call(ann)
      connection.cancel(late, new Error("cancelled"))
      call(bob)
      if (isEarly) await ask()
      receive({ id: createRequestIds("x").text(late), result: {} })
      await settle()
      expect(isEarly ? sent.at(-1) : await ask()).toMatchObject({ result: { by: "bob" } })
    }
  })

  test("does not count for messages on the stream of a call", async () => {
    open({ abandon: () => undefined })
    connection.cancel(call(ann), new Error("cancelled"))
    const number = call(bob)
    expect(await ask({}, number)).toMatchObject({ result: { by: "bob" } })
    await ask()
    expect(bob.asked).toHaveLength(1)
  })
})

test("a late message on the stream of an ended call is for no client", async () => {
  open({ abandon: () => undefined })
  const ended = call(ann)
  receive({ id: createRequestIds("x").text(ended), result: {} }, ended)
  call(bob)
  expect((await ask({}, ended))?.error).toBeDefined()
  receive({ method: "notifications/message", params: {} }, ended)
  expect([bob.asked, heard.map(([caller]) => caller === bob.caller)]).toEqual([[], [false]])
})

describe("a client with an open server request", () => {
  const waiting = (): { readonly caller: Caller; readonly others: boolean[] } => {
    const others: boolean[] = []
    const caller: Caller = {
      session: {},
      notify: () => undefined,
      ask: () => new Promise(() => undefined),
      giveUpIfStale: (_now, told) => void others.push(told),
    }
    return { caller, others }
  }

  test("is told until it answers whether it blocks other clients", async () => {
    const cat = waiting()
    call(cat)
    await clock.pass(1000)
    expect(cat.others).toEqual([])
    receive({ id: "e1", method: "elicitation/create" })
    await clock.pass(1000)
    expect(new Set(cat.others)).toEqual(new Set([false]))
    // A call whose server request was refused ends at once, and still counts as blocked.
    receive({ id: createRequestIds("x").text(call(bob)), result: {} })
    await clock.pass(1000)
    expect(cat.others.at(-1)).toBe(true)
    await clock.pass(60_000)
    expect(cat.others.at(-1)).toBe(false)
  })

  test("blocks no other client if each call has a stream of its own", async () => {
    open({ abandon: () => undefined })
    const cat = waiting()
    receive({ id: "e1", method: "elicitation/create" }, call(cat))
    call(bob)
    await clock.pass(1000)
    expect(new Set(cat.others)).toEqual(new Set([false]))
  })
})

describe("a task", () => {
  const related = (taskId: string) => ({ _meta: { "io.modelcontextprotocol/related-task": { taskId } } })

  test("names the client of its server request, among any number of clients", async () => {
    call(ann, "tasks/result")
    call(bob)
    expect(await ask(related("t1"))).toMatchObject({ result: { by: "ann" } })
    expect((await ask(related("t2")))?.error).toBeDefined()
    expect(bob.asked).toEqual([])
    // A client that waits for a task does not get a server request that names none.
    expect(await ask()).toMatchObject({ result: { by: "bob" } })
  })

  test("reports its progress after the call was answered", () => {
    const number = call(ann, "tools/call", 7)
    const text = createRequestIds("x").text(number)
    receive({ id: text, result: {} })
    receive({ method: "notifications/progress", params: { progressToken: text, progress: 1 } })
    connection.keepProgress(number, ann.caller, 7)
    receive({ method: "notifications/progress", params: { progressToken: text, progress: 2 } })
    expect(ann.told).toEqual([{ progressToken: 7, progress: 2 }])
  })
})

describe("an invalid message", () => {
  const odd = { toString: 1, valueOf: 1 }
  const messages = () => {
    const members = {
      id: [undefined, null, 1, "x-1", odd, []],
      method: [undefined, "notifications/progress", "notifications/cancelled", "notifications/x", "x"],
      params: [undefined, { uri: odd }, { progressToken: odd }, { requestId: odd }, { _meta: odd }],
      result: [undefined, {}, odd, null],
      error: [undefined, {}, { code: 1 }, { message: odd }, odd, { code: odd, message: null }],
    }
    let all: Record<string, unknown>[] = [{ jsonrpc: "2.0" }]
    for (const [name, values] of Object.entries(members))
      all = all.flatMap((one) => values.map((value) => ({ ...one, [name]: value })))
    return all
  }

  test("with any members throws nothing", () => {
    for (const message of messages()) {
      const frame = JSON.stringify(message)
      expect(() => connection.receive(encode(frame)), frame).not.toThrow()
    }
  })

  test("that is an answer without an id is reported as a protocol error", () => {
    const noise: string[] = []
    connection = new Connection("s", createRequestIds("x"), clock, {
      owner: undefined,
      onprotocolerror: (text) => void noise.push(text),
      onnotification() {},
    })
    connection.receive(encode('{"jsonrpc":"2.0","result":{}}'))
    connection.receive(encode('{"jsonrpc":"2.0","error":{"code":1}}'))
    const text = "answered a request that svc did not send: without an id"
    expect(noise).toEqual([text, text])
  })

  test("may have an error with any message", () => {
    expect(peerError({ code: 1, message: odd as unknown as string })).toMatchObject({
      code: 1,
      message: "error",
    })
  })
})

describe("a large answer that has not ended", () => {
  const HEAD = {
    first: (number: number) => `{"jsonrpc":"2.0","id":"svcx.${number}","result":{"a`,
  }
  /** Makes a request whose owner takes large answers, and returns what becomes of it. */
  const request = (end = () => encode("{}"), push = (_: Uint8Array): Promise<void> | undefined => undefined) => {
    const taken: string[] = []
    const take = (head: Uint8Array) => {
      taken.push(new TextDecoder().decode(head))
      return { push, end }
    }
    const flight = connection.request({
      method: "tools/call",
      params: { name: "t" },
      caller: ann.caller,
      timeout: 1000,
      onlarge: take,
    })
    const ended = flight.outcome.then(
      (outcome) => (outcome.kind === "message" ? outcome.size : outcome.kind),
      (error: Error) => error.message,
    )
    return { number: flight.number, taken, ended }
  }
  const offer = (head: string) => connection.offer(encode(head))

  test("is offered to the request of the id at its head, whichever else are open", () => {
    const [one, two] = [request(), request()]
    expect(offer(HEAD.first(two.number))).toBeDefined()
    expect([one.taken, two.taken]).toEqual([[], [HEAD.first(two.number)]])
  })

  test("is read whole unless its id stands before a result, even if only one request is pending [relay:whose]", () => {
    const { number, taken } = request()
    const id = `"id":"svcx.${number}"`
    for (const head of [
      '{"result":{"a',
      '{"jsonrpc":"2.0","result":{"a',
      `[{"jsonrpc":"2.0",${id},"result":{"a`,
      `{"jsonrpc":"2.0",${id},"error":{"code":1,"message":"a`,
      `{"jsonrpc":"2.0",${id},"method":"sampling/createMessage","params":{"a`,
      `{"jsonrpc":"2.0","method":"notifications/message","params":{${id},"result":{"a`,
      '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"a',
      `\ufeff{${id},"result":{"a`,
      `{"x":{${id},"result":{"a`,
      `{"jsonrpc":"2.0",${id},"result":["a`,
    ])
      expect([head, offer(head)]).toEqual([head, undefined])
    expect(taken).toEqual([])
    for (const head of ['{ID,"jsonrpc":"2.0","result":{', ' { ID , "result" : {', '{ID,"result":{']) {
      const named = head.replace("ID", `"id":"svcx.${request().number}"`)
      expect([head, offer(named) !== undefined]).toEqual([head, true])
    }
  })

  test("is dropped while it arrives if its request does not wait any more", async () => {
    const { number, taken, ended } = request()
    connection.cancel(number, new Error("cancelled"))
    expect(await ended).toBe("cancelled")
    const sink = offer(HEAD.first(number))
    expect(sink).toBeDefined()
    expect(sink?.push(encode("x"))).toBeUndefined()
    sink?.end()
    expect(taken).toEqual([])
  })

  test("is the answer, and any other answer that comes meanwhile is dropped and reported [relay:second]", async () => {
    const { number, taken, ended } = request(() => encode('{"jsonrpc":"2.0","id":"svcx.1","result":{}}'))
    const first = offer(HEAD.first(number))
    const second = offer(HEAD.first(number))
    void second?.push(encode("b"))
    second?.end()
    receive({ id: `svcx.${number}`, result: { small: true } })
    receive({ id: `svcx.${number}`, error: { code: 1, message: "m" } })
    expect(connection.isPending(number)).toBe(true)
    void first?.push(encode("aa"))
    first?.end()
    expect(await ended).toBe(HEAD.first(number).length + 2)
    expect(taken.length).toBe(1)
    const line = "sent a second answer to tools/call of t while it sent the first; the second was dropped"
    expect(reported).toEqual([line, line, line])
  })

  test("answers its request with what its owner leaves of it, unless that is another's answer", async () => {
    const one = request(() => encode('{"jsonrpc":"2.0","id":"svcx.1","result":{}}'))
    const sink = offer(HEAD.first(one.number))
    void sink?.push(encode("bcd"))
    sink?.end()
    expect(await one.ended).toBe(HEAD.first(one.number).length + 3)
    for (const rest of [
      '{"jsonrpc":"2.0","id":"svcx.1","result":{}}',
      '{"jsonrpc":"2.0","id":1,"id":2,"result":{}}',
      "{",
    ]) {
      const other = request(() => encode(rest))
      offer(HEAD.first(other.number))?.end()
      expect(await other.ended).toStartWith("s: sent ")
    }
  })

  test("is followed by a ping if its request ends first, so that no answer to a call is taken for its rest", () => {
    for (const [transport, pings] of [
      [{}, 1],
      [{ abandon: () => undefined }, 0],
    ] as const) {
      open(transport)
      sent = []
      const [waiting, passing] = [request(), request()]
      offer(HEAD.first(passing.number))
      connection.cancel(waiting.number, new Error("cancelled"))
      expect(sent.filter(({ method }) => method === "ping")).toEqual([])
      connection.cancel(passing.number, new Error("cancelled"))
      expect(sent.filter(({ method }) => method === "ping")).toHaveLength(pings)
    }
  })

  test("fails its request if it is invalid, broken off, past the limit, late, or its server is lost", async () => {
    const invalid = request(undefined, () => {
      throw new Error("sent nonsense")
    })
    void offer(HEAD.first(invalid.number))?.push(encode("x"))
    expect(await invalid.ended).toBe("s: sent nonsense")
    const broken = request()
    offer(HEAD.first(broken.number))?.fail(new Error("closed the stream"))
    expect(await broken.ended).toBe("s: closed the stream")
    const long = request()
    offer(HEAD.first(long.number))
    connection.receiveOversized(encode(HEAD.first(long.number)))
    expect(await long.ended).toBe("s: answered with more than --max-result allows")
    const late = request()
    const sink = offer(HEAD.first(late.number))
    await clock.pass(900)
    // What comes of an answer puts its time limit off.
    void sink?.push(encode("x"))
    await clock.pass(900)
    expect(connection.isPending(late.number)).toBe(true)
    await clock.pass(900)
    expect(await late.ended).toBe(
      "s: nothing more of its answer to tools/call within 1 s (requestTimeout): the server has stopped, or the client does not read",
    )
    const lost = request()
    offer(HEAD.first(lost.number))
    connection.end({ reason: "exited with code 3" })
    expect(await lost.ended).toBe("s: exited with code 3")
  })
})

describe("silence is measured by what is received", () => {
  const request = (method: string, timeout: number, caller: Caller | undefined = undefined) =>
    connection.request({ method, params: {}, caller, timeout })
  const receive = (message: object) => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", ...message })))
  const logs = { method: "notifications/message", params: { level: "info", data: 1 } }

  test("and begins with the first request that waits", async () => {
    const opened = clock.now()
    await clock.pass(50_000)
    expect([connection.lastReceived, connection.silentFor]).toEqual([opened, undefined])
    const { outcome } = request("tools/call", 100_000)
    await clock.pass(20_000)
    request("tools/list", 100_000).outcome.catch(() => undefined)
    await clock.pass(10_000)
    expect([connection.lastReceived, connection.silentFor]).toEqual([opened, 30_000])
    receive(logs)
    expect([connection.lastReceived, connection.silentFor]).toEqual([clock.now(), 0])
    await clock.pass(5000)
    receive({ id: sent[0]?.id, result: {} })
    await outcome
    await clock.pass(7000)
    expect(connection.silentFor).toBe(7000)
  })

  test("and goes on if requests time out one after the other", async () => {
    for (let call = 0; call < 6; call++) {
      request("tools/call", 5000).outcome.catch(() => undefined)
      await clock.pass(10_000)
    }
    request("tools/call", 5000).outcome.catch(() => undefined)
    expect(connection.silentFor).toBe(60_000)
  })

  test("and the backend does not let requests wait while it waits for a client's answer", async () => {
    const answered = Promise.withResolvers<object>()
    const caller = { ...ann.caller, ask: () => answered.promise }
    request("tools/call", 1_000_000, caller).outcome.catch(() => undefined)
    receive({ id: 1, method: "elicitation/create", params: {} })
    await clock.pass(600_000)
    expect(connection.silentFor).toBeUndefined()
    answered.resolve({})
    await clock.pass(1000)
    expect(connection.silentFor).toBe(1000)
  })

  test("and pings and streams do not wait: a server may lack pings, and a stream has no end", async () => {
    for (const method of ["ping", "server/discover"]) request(method, 100_000).outcome.catch(() => undefined)
    request("subscriptions/listen", Number.POSITIVE_INFINITY)
    await clock.pass(50_000)
    expect(connection.silentFor).toBeUndefined()
  })
})

test("after a request failed in transport, a success is reported once; the answer to a ping does not count [health:healthy:server]", () => {
  let recovered = 0
  const ids = createRequestIds("x")
  connection = new Connection("s", ids, clock, {
    owner: undefined,
    onprotocolerror() {},
    onnotification() {},
    onrecovered: () => recovered++,
  })
  connection.attach({ pid: undefined, buffered: 0, close: async () => undefined, send() {} })
  const ask = (method: string) => {
    const { number, outcome } = connection.request({ method, params: {}, caller: undefined, timeout: 1000 })
    outcome.catch(() => undefined)
    return number
  }
  const answer = (number: number) =>
    connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: ids.text(number), result: {} })))
  answer(ask("tools/call"))
  connection.fail(ask("tools/call"), new Error("answered 500"))
  answer(ask("ping"))
  expect(recovered).toBe(0)
  answer(ask("tools/call"))
  answer(ask("tools/call"))
  expect(recovered).toBe(1)
})
