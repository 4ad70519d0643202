/** Calls that are cancelled, and calls that wait when svc stops, over HTTP and the old HTTP+SSE transport. */
import { describe, expect, test } from "bun:test"
import { eventually, fixture, freePort, type Instance, modern, startSvc } from "./harness.ts"

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" }
const server = (...flags: string[]) => ({ command: process.execPath, args: [fixture("cancelled.ts"), ...flags] })

type Answer = {
  readonly id?: unknown
  readonly method?: string
  readonly params?: { readonly message?: string }
  readonly result?: { readonly content: readonly { readonly text: string }[] }
  readonly error?: { readonly code: number; readonly message: string }
}

/** A legacy client that records every question, and answers unless it is `silent`. */
async function open(
  { url }: Pick<Instance, "url">,
  { protocolVersion = "2025-11-25", silent = false, query = "" } = {},
) {
  const asked: string[] = []
  const told: { readonly method: unknown; readonly params: unknown }[] = []
  let session = ""
  let lastId = 0
  const post = (message: object) =>
    fetch(`${url}/mcp${query}`, {
      method: "POST",
      headers: { ...HEADERS, ...(session === "" ? {} : { "mcp-session-id": session }) },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    })
  const clientInfo = { name: "t", version: "1" }
  const first = await post({
    id: ++lastId,
    method: "initialize",
    params: { protocolVersion, capabilities: { elicitation: {} }, clientInfo },
  })
  await first.text()
  session = first.headers.get("mcp-session-id") ?? ""
  const take = (text: string): Answer[] => {
    const messages = [...text.matchAll(/^data: ?(\{.*)$/gm)].map(([, data = ""]) => JSON.parse(data) as Answer)
    for (const { id, method, params } of messages) {
      if (id === undefined) told.push({ method, params })
      if (method !== "elicitation/create") continue
      asked.push(params?.message ?? "")
      if (!silent) void post({ id, result: { action: "accept", content: {} } })
    }
    return messages
  }
  const call = (name: string, args: object) => {
    const id = ++lastId
    const answer = post({ id, method: "tools/call", params: { name, arguments: args } }).then(async (response) => {
      if (!String(response.headers.get("content-type")).includes("event-stream"))
        return { response, answers: [(await response.json()) as Answer] }
      const answers: Answer[] = []
      const decoder = new TextDecoder()
      for await (const chunk of response.body ?? []) answers.push(...take(decoder.decode(chunk, { stream: true })))
      return { response, answers: answers.filter((message) => message.id === id) }
    })
    return {
      answer,
      text: async () => (await answer).answers[0]?.result?.content[0]?.text,
      cancel: () => cancel(id, answer),
    }
  }
  /** Cancels a request until it is over: the first time it may not have come yet. */
  const cancel = async <T>(requestId: number, answer: Promise<T>): Promise<T> => {
    const over = answer.then(() => true)
    await eventually(async () => {
      await post({ method: "notifications/cancelled", params: { requestId, reason: "enough" } })
      return Promise.race([over, false])
    })
    return answer
  }
  return { asked, told, call, cancel, headers: { ...HEADERS, "mcp-session-id": session } }
}

describe("after a call was cancelled", () => {
  test("the server can ask another client at once if it has answered the call, and after a while if it has not", async () => {
    await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
    const ann = await open(svc)
    const bob = await open(svc)
    await ann.call("s_svc_refuse", {}).cancel()
    expect(await bob.call("s_svc_ask", { by: "bob" }).text()).toContain("accept")
    await ann.call("s_svc_hang", {}).cancel()
    expect(await bob.call("s_svc_ask", { by: "bob" }).text()).toContain("several clients")
    expect(await bob.call("s_svc_ask", { by: "bob" }).text()).toContain("accept")
    expect([bob.asked, ann.asked]).toEqual([["of bob", "of bob"], []])
  }, 90_000)

  test("its question reaches no other client, no matter how late the server reads or asks [protocol:whose:gone]", async () => {
    const names = ["late", "block"]
    await using svc = await startSvc({
      config: { mcpServers: Object.fromEntries(names.map((name) => [name, server()])) },
    })
    const ann = await open(svc)
    const bob = await open(svc)
    await Promise.all(
      names.map(async (name) => {
        const theirs = bob.call(`${name}_svc_late`, { ms: 5000, by: "bob" })
        await ann.call(`${name}_svc_${name}`, { ms: 800, by: "ann" }).cancel()
        // The question of the cancelled call is refused, and the call answered, while bob's question is held.
        expect(await theirs.text()).toContain("accept")
      }),
    )
    expect([bob.asked, ann.asked]).toEqual([["of bob", "of bob"], []])
  }, 90_000)
})

test("a request that the server withdraws is cancelled in its own words", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
  const ann = await open(svc, { silent: true })
  expect(await ann.call("s_svc_withdraw", { ms: 500 }).text()).toBe("withdrawn")
  expect(ann.told).toMatchObject([
    { method: "notifications/cancelled", params: { reason: "found in a file", _meta: { "example/a": 1 } } },
  ])
})

test("the end of an elicitation that svc has not seen reaches the client of the call", async () => {
  await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
  const ann = await open(svc)
  const bob = await open(svc)
  expect(await ann.call("s_svc_complete", {}).text()).toBe("completed")
  expect(ann.told).toMatchObject([
    { method: "notifications/elicitation/complete", params: { elicitationId: "of-a-text" } },
  ])
  expect(bob.told).toEqual([])
})

describe("a cancelled request", () => {
  test("reaches the server with the reason of its client, in its own words", async () => {
    await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
    const ann = await open(svc)
    await ann.call("s_svc_hang", {}).cancel()
    await svc.said(/cancelled because: enough$/m)
  })

  test("that came through call_tool is cancelled at the server, and gets no answer [lazy:call]", async () => {
    await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
    const ann = await open(svc, { query: "?tools=search" })
    const bob = await open(svc)
    const { response, answers } = await ann.call("call_tool", { name: "s_svc_refuse" }).cancel()
    expect([response.headers.get("content-type"), answers]).toEqual(["text/event-stream", []])
    // The server has ended ann's call: with a call of ann's in flight, bob would not be asked.
    expect(await bob.call("s_svc_ask", { by: "bob" }).text()).toContain("accept")
    expect(ann.asked).toEqual([])
  })

  test("gets no answer over HTTP: its stream ends [protocol:cancelled]", async () => {
    await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
    const ann = await open(svc)
    const silent = await open(svc, { silent: true })
    const asked = silent.call("s_svc_ask", {})
    await eventually(() => silent.asked.length > 0)
    // Its stream is open already.
    expect((await asked.cancel()).answers).toEqual([])
    const { response, answers } = await ann.call("s_svc_hang", {}).cancel()
    expect([response.status, response.headers.get("content-type"), answers]).toEqual([200, "text/event-stream", []])
  })

  test("gets no answer in a batch, nor on the stream of the old transport [protocol:cancelled]", async () => {
    await using svc = await startSvc({ config: { mcpServers: { s: server() } } })
    const { headers, cancel } = await open(svc, { protocolVersion: "2025-03-26" })
    const hang = { jsonrpc: "2.0", id: 50, method: "tools/call", params: { name: "s_svc_hang", arguments: {} } }
    const body = JSON.stringify([hang, { jsonrpc: "2.0", id: 51, method: "ping" }])
    const batch = fetch(`${svc.url}/mcp`, { method: "POST", headers, body })
    expect(await (await cancel(50, batch)).json()).toEqual([{ jsonrpc: "2.0", id: 51, result: {} }])

    const stream = await fetch(`${svc.url}/sse`)
    let text = ""
    const reading = (async () => {
      for await (const chunk of stream.body ?? []) text += new TextDecoder().decode(chunk)
    })().catch(() => undefined)
    const path = await eventually(() => /^data: (\/messages\S+)/m.exec(text)?.[1])
    const send = (message: object) =>
      fetch(`${svc.url}${path}`, {
        method: "POST",
        headers: HEADERS,
        body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      })
    const clientInfo = { name: "t", version: "1" }
    await send({
      id: 1,
      method: "initialize",
      params: { protocolVersion: "2024-11-05", capabilities: {}, clientInfo },
    })
    await eventually(() => text.includes('"id":1,'))
    await send({ ...hang, id: 2 })
    await send({ method: "notifications/cancelled", params: { requestId: 2 } })
    await send({ id: 3, method: "ping" })
    await eventually(() => text.includes('"id":3,'))
    expect(text).not.toContain('"id":2,')
    await svc[Symbol.asyncDispose]()
    await reading
  })
})

describe("a call that waits for its server", () => {
  test("gets the error that svc is shutting down when svc stops, in both eras and without JSON-RPC [protocol:stopping]", async () => {
    const port = await freePort()
    const away = { type: "streamableHttp", url: `http://127.0.0.1:${port}/mcp` }
    await using svc = await startSvc({
      config: { mcpServers: { h: away, s: server("--delay", "60000") } },
      flags: ["--startup-wait", "20s"],
    })
    const url = `${svc.url}/mcp`
    const plain = fetch(url, { method: "POST", headers: HEADERS, body: JSON.stringify({ tool: "s_svc_ask" }) })
    const asked = [
      modern(url, "tools/call", { name: "h_svc_work", arguments: {} }),
      modern(url, "tools/call", { name: "s_svc_ask", arguments: {} }),
      modern(url, "prompts/get", { name: "s_svc_p" }),
      modern(url, "resources/read", { uri: "svc://s/file:///a" }),
      modern(url, "completion/complete", {
        ref: { type: "ref/prompt", name: "s_svc_p" },
        argument: { name: "a", value: "" },
      }),
    ]
    await eventually(async () => (await fetch(`${svc.url}/health/mcp`)).status === 202)
    svc.signal("SIGTERM")
    for (const { body } of await Promise.all(asked))
      expect(body.error).toEqual({ code: -32603, message: "svc is shutting down" })
    const answer = await plain
    expect([answer.status, await answer.json()]).toEqual([
      503,
      { error: { code: -32603, message: "svc is shutting down" } },
    ])
  })

  test("goes to the process that has replaced the server meanwhile", async () => {
    const config = (delay: number) => ({ mcpServers: { s: server("--delay", String(delay)) } })
    await using svc = await startSvc({ config: { mcpServers: {} } })
    const ann = await open(svc)
    svc.write(config(60_000))
    await svc.said("added")
    const waiting = ann.call("s_svc_ask", { by: "ann" })
    svc.write(config(0))
    expect(await waiting.text()).toContain("accept")
  })
})
