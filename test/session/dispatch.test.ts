import { describe, expect, test } from "bun:test"
import { PeerError } from "../../src/backend/peer-error.ts"
import type { Answer } from "../../src/call/answer.ts"
import { errorAnswer } from "../../src/call/answer.ts"
import type { Client } from "../../src/call/client.ts"
import { buildCatalog, emptyCatalog } from "../../src/catalog/catalog.ts"
import { dispatch } from "../../src/session/dispatch.ts"
import { textOf } from "../../src/wire/frame.ts"
import { manualClock } from "../clock.ts"
import {
  FAKE_OWN_TOOLS,
  fakeClient,
  fakeConnection,
  fakeExchange,
  fakeGateway,
  fakePeer,
  fakeSpec,
  type GatewayParts,
} from "../fakes.ts"

const AT_SERVER = { scope: { kind: "server", id: "s" } } as const

const spec = fakeSpec()
const listing = {
  ...fakePeer("legacy", { tools: {}, resources: {} }),
  tools: [{ name: "read" }, { name: "write" }],
  prompts: [],
  resources: [{ uri: "file:///a", name: "a" }],
  resourceTemplates: [],
}
const catalog = buildCatalog([{ spec, listing }], emptyCatalog())

/** A connection to a server that never answers. */
function silentServer(send: (frame: string) => void) {
  const clock = manualClock()
  const connection = fakeConnection(clock, (frame) => send(String(frame)))
  return { connection, clock }
}

/** One server, `s`, that is connected and never answers. */
function connected(): NonNullable<GatewayParts["directory"]> {
  const { connection } = silentServer(() => undefined)
  const peer = { ...listing, capabilities: { ...listing.capabilities, logging: {}, resources: { subscribe: true } } }
  return { catalogOf: () => catalog, target: () => ({ spec, connection, peer }) }
}

const ask = (
  method: string,
  params: object,
  { client = fakeClient("legacy"), ...parts }: GatewayParts & { client?: Client } = {},
): Promise<Answer> =>
  dispatch({
    request: { jsonrpc: "2.0", id: 1, method, params: { ...params } },
    gateway: fakeGateway({ directory: connected(), ...parts }),
    client,
    exchange: fakeExchange(),
  })

const errorOf = async (answering: Promise<Answer>): Promise<{ code: number; message: string }> =>
  JSON.parse(textOf((await answering).frame)).error

describe("an unknown name is refused, and a similar one is suggested", () => {
  test("for a tool", async () => {
    expect(await errorOf(ask("tools/call", { name: "s_svc_reed" }))).toEqual({
      code: -32602,
      message: "Unknown tool: s_svc_reed. Did you mean s_svc_read?",
    })
  })

  test("for a prompt and for a resource", async () => {
    expect((await errorOf(ask("prompts/get", { name: "x" }))).message).toBe("Unknown prompt: x")
    expect((await errorOf(ask("resources/read", { uri: "x:y" }))).message).toBe("Unknown resource: x:y")
    expect((await errorOf(ask("resources/read", { uri: 7 }))).message).toBe("Unknown resource: 7")
  })
})

describe("a name that the server does not list", () => {
  /** Whether a call by this name reaches the server. */
  const reaches = async (name: string, tuning: object, method = "tools/call", more: GatewayParts["directory"] = {}) => {
    const sent: string[] = []
    const { connection, clock } = silentServer((frame) => void sent.push(frame))
    const own = { ...spec, tuning: { ...spec.tuning, ...tuning } }
    const tools = buildCatalog([{ spec: own, listing }], emptyCatalog())
    const target = { spec: own, connection, peer: listing }
    const directory = { catalogOf: () => tools, target: () => target, ...more }
    const answering = ask(method, { name }, { client: fakeClient("legacy", AT_SERVER), directory })
    await clock.pass(0)
    connection.end({ reason: "is lost" })
    await answering
    return sent.some((frame) => frame.includes(`"name":"${name}"`))
  }

  test("is relayed at the server's own address [tool:unlisted]", async () => {
    expect(await reaches("secret", {})).toBe(true)
    expect(await reaches("secret", {}, "prompts/get")).toBe(true)
    expect((await errorOf(ask("tools/call", { name: "s_svc_secret" }))).message).toBe("Unknown tool: s_svc_secret")
  })

  test("is refused if svc keeps tools of the server from clients [tool:unlisted] [tool:hidden]", async () => {
    for (const name of ["read", "READ", "secret"])
      expect([name, await reaches(name, { disabledTools: ["read"] })]).toEqual([name, false])
    expect(await reaches("write", { disabledTools: ["read"] })).toBe(true)
    expect(await reaches("secret", { toolPinning: "strict" })).toBe(false)
    expect(await reaches("secret", { disabledTools: ["read"] }, "prompts/get")).toBe(true)
  })

  test("is refused while the server has not answered the list", async () => {
    const unlisted = () => ({ id: "s", slug: "s", reason: "tools/list failed" })
    expect(await reaches("secret", {}, "tools/call", { unlisted })).toBe(false)
  })
})

describe("an unknown method is refused", () => {
  test("at /mcp", async () => {
    expect(await errorOf(ask("vendor/method", {}))).toEqual({
      code: -32601,
      message: "Method not found: vendor/method",
    })
  })

  test("if it is about tasks, at the address of one server too", async () => {
    expect((await errorOf(ask("tasks/steal", {}, { client: fakeClient("legacy", AT_SERVER) }))).code).toBe(-32601)
  })

  test("if only the other era has it", async () => {
    for (const method of ["ping", "logging/setLevel", "resources/subscribe", "tasks/list", "initialize"])
      expect((await errorOf(ask(method, {}, { client: fakeClient("modern") }))).code).toBe(-32601)
  })
})

describe("a list", () => {
  const ownTools = [FAKE_OWN_TOOLS]
  const namesIn = async (answering: Promise<Answer>): Promise<string[]> =>
    JSON.parse(textOf((await answering).frame)).result.tools.map(({ name }: { name: string }) => name)

  test("of tools begins with svc's own", async () => {
    expect(await namesIn(ask("tools/list", {}, { ownTools }))).toEqual(["mcp_list", "s_svc_read", "s_svc_write"])
  })

  test("of one server has its own names, and none of svc's tools", async () => {
    const client = fakeClient("legacy", AT_SERVER)
    expect(await namesIn(ask("tools/list", {}, { ownTools, client }))).toEqual(["read", "write"])
  })

  test("of one server that is not connected is an error with the reason", async () => {
    const client = fakeClient("legacy", AT_SERVER)
    const directory = { target: () => "is not available" }
    expect(await errorOf(ask("tools/list", {}, { client, directory }))).toEqual({
      code: -32603,
      message: "s is not available",
    })
  })

  test("comes in pages if it is longer than one", async () => {
    const { frame } = await ask("tools/list", {}, { limits: { pageSize: 1 } })
    expect(JSON.parse(textOf(frame)).result).toMatchObject({
      tools: [{ name: "s_svc_read" }],
      nextCursor: expect.any(String),
    })
  })
})

describe("a call over the rate limit", () => {
  const limits = { sessionRate: 60, callRate: { take: () => 3 } }

  test("is refused with the seconds to wait", async () => {
    const answer = await ask("tools/call", { name: "s_svc_read" }, { limits })
    expect(answer).toMatchObject({ outcome: "error", code: -32600, retryAfter: 3 })
    expect(textOf(answer.frame)).toContain('"data":{"retryAfter":3}')
  })

  test("does not affect requests that are not calls", async () => {
    expect((await ask("tools/list", {}, { limits })).outcome).toBe("ok")
  })
})

test("svc does not subscribe at the server if the session has too many subscriptions", async () => {
  const made: string[] = []
  const notifications = { subscribe: (_id: string, uri: string) => void made.push(uri) }
  const memory = {
    addSubscription(_backend: string, uri: string): undefined {
      if (made.length > 0) throw new Error(`no room for ${uri}`)
    },
    removeSubscription: () => undefined,
    addTask() {},
    removeTask() {},
    setLogLevel: () => undefined,
  }
  const client = fakeClient("legacy", { memory })
  const observers = { onbug() {} }
  for (let time = 0; time < 2; time++)
    await ask("resources/subscribe", { uri: "svc://s/file:///a" }, { client, notifications, observers })
  expect(made).toEqual(["file:///a"])
})

test("a log level that MCP does not define is refused", async () => {
  expect((await errorOf(ask("logging/setLevel", { level: "loud" }))).message).toBe("Unknown log level: loud")
})

test("a refused log level is taken back, and one that the client set in the meantime stays", async () => {
  let level: string | undefined
  const refusals: (() => void)[] = []
  const notifications = {
    setLogLevel(_session: object, next: string | undefined) {
      const before = level
      level = next
      return before
    },
    levelDecided: () => new Promise<Error>((resolve) => refusals.push(() => resolve(new PeerError(-32603, "no")))),
  }
  const set = (wanted: string) =>
    ask("logging/setLevel", { level: wanted }, { client: fakeClient("legacy", AT_SERVER), notifications })
  const first = set("debug")
  refusals.shift()?.()
  expect((await errorOf(first)).message).toBe("no")
  expect(level).toBeUndefined()
  const second = set("debug")
  const third = set("error")
  refusals.shift()?.()
  await second
  expect(level).toBe("error")
  refusals.shift()?.()
  await third
})

test("a request that the transport refuses is not relayed", async () => {
  const gateway = fakeGateway({ directory: connected() })
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "s_svc_read" } } as const
  const verify = () => errorAnswer(1, -32020, "Header mismatch")
  const answer = await dispatch({ request, gateway, client: fakeClient("modern"), exchange: fakeExchange(), verify })
  expect(answer).toMatchObject({ outcome: "error", code: -32020 })
})

test("a bug of svc is reported, and its details are not sent to the client", async () => {
  const bugs: unknown[] = []
  const bug = new TypeError("x is not a function")
  const directory = {
    catalogOf: () => {
      throw bug
    },
  }
  const answer = ask("tools/list", {}, { directory, observers: { onbug: (error) => bugs.push(error) } })
  expect(await errorOf(answer)).toEqual({ code: -32603, message: "internal error" })
  expect(bugs).toEqual([bug])
})

describe("the audit log", () => {
  const entries: string[] = []
  const audit = {
    call: ({ request }: { request: { method: string } }) => ({
      end: ({ outcome }: Answer) => void entries.push(`${request.method} ${outcome}`),
    }),
    action: () => () => undefined,
    access: () => undefined,
  }

  test("contains calls with their outcome, including refused ones, and nothing else", async () => {
    await ask("tools/list", {}, { observers: { audit } })
    await ask("tools/call", { name: "none" }, { observers: { audit } })
    await ask("tools/call", { name: "s_svc_x" }, { observers: { audit }, directory: { disconnectedId: () => "s" } })
    expect(entries).toEqual(["tools/call error", "tools/call tool_error"])
  })
})

test.each(["initialize", "subscriptions/listen", "notifications/initialized", "notifications/cancelled"])(
  "%s as a client's request never reaches a shared server",
  async (method) => {
    const client = fakeClient("legacy", AT_SERVER)
    expect(await errorOf(ask(method, { requestId: "x1" }, { client }))).toMatchObject({ code: -32601 })
  },
)
