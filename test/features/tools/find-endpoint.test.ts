/** Finds MCP endpoints by server cards, on a network in memory. */
import { describe, expect, test } from "bun:test"
import { describeEndpoint, findServer, planFound } from "../../../src/features/tools/find-endpoint.ts"
import { mcpInstall } from "../../../src/features/tools/install.ts"
import { stage } from "./stage.ts"

const CARD = "application/mcp-server-card+json"
const card = (url: string, more: object = {}) => ({
  $schema: "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
  name: "com.example/weather",
  version: "1.0.0",
  description: "Weather",
  title: "Weather",
  remotes: [{ type: "streamable-http", url, ...more }],
})
const catalog = (...entries: object[]) => ({
  specVersion: "1.0",
  entries: entries.map((entry, at) => ({ identifier: `urn:air:example.com:mcp:${at}`, type: CARD, ...entry })),
})

/** A network with these documents by URL; other addresses are 404, and `never` does not answer. */
function network(documents: Readonly<Record<string, unknown>>) {
  const asked: string[] = []
  return {
    asked,
    fetch: (url: string, { method = "GET" }: RequestInit): Promise<Response> => {
      asked.push(`${method} ${url}`)
      const found = documents[method === "GET" ? url : `${method} ${url}`]
      if (found instanceof Response) return Promise.resolve(found)
      if (found === "never") return new Promise(() => undefined)
      return Promise.resolve(found === undefined ? new Response("", { status: 404 }) : Response.json(found))
    },
  }
}
const CATALOG = "https://example.com/.well-known/ai-catalog.json"
const endpointOf = async (text: string, documents: Readonly<Record<string, unknown>>) => {
  const found = await findServer(text, network(documents).fetch)
  return typeof found === "string" ? found : planFound(found, {}).server.url
}

describe("an endpoint is found [cards:read]", () => {
  const there = card("https://mcp.example.net/weather/mcp")

  test.each([
    [
      "a host",
      "example.com",
      { [CATALOG]: catalog({ url: "/cards/weather" }), "https://example.com/cards/weather": there },
    ],
    ["a host's address", "https://example.com/", { [CATALOG]: catalog({ data: there }) }],
    ["a page", "https://example.com/docs/start", { [CATALOG]: catalog({ data: there }) }],
    ["the usual place of a card", "example.com", { "https://example.com/mcp/server-card": there }],
    ["a card's own address", "https://example.com/x/server-card", { "https://example.com/x/server-card": there }],
    ["a card at an address", "https://example.com/api", { "https://example.com/api/server-card": there }],
  ])("by %s", async (_what, text, documents) => {
    expect(await endpointOf(text, documents)).toBe("https://mcp.example.net/weather/mcp")
  })

  test("once, if its card is both served and listed", async () => {
    const documents = { "https://example.com/mcp/server-card": there, [CATALOG]: catalog({ data: there }) }
    expect(await endpointOf("example.com", documents)).toBe("https://mcp.example.net/weather/mcp")
  })

  test("but not among several: they are listed", async () => {
    const other = { ...card("https://example.com/b/mcp"), title: "Other\u001b[31m" }
    const documents = { [CATALOG]: catalog({ data: there }, { data: other }, { data: { name: "no card" } }) }
    const finding = findServer("example.com", network(documents).fetch)
    await expect(finding).rejects.toThrow(
      "example.com names several MCP servers; give the URL of one of them:\n  https://mcp.example.net/weather/mcp  Weather\n  https://example.com/b/mcp  Other",
    )
    await expect(finding).rejects.not.toThrow("\u001b")
  })
})

describe("an address is used unchanged [cards:read]", () => {
  test("without any request if it ends like an endpoint, or svc cannot know it yet", async () => {
    for (const text of [
      "https://example.com/mcp",
      "https://example.com/x/sse/",
      "https://${HOST}/",
      "bogus",
      "file:///etc",
      "https://{{context.path}}.example",
    ]) {
      const { asked, fetch } = network({})
      expect([await findServer(text, fetch), asked]).toEqual([text, []])
    }
    expect(await findServer("localhost:3050/mcp", network({}).fetch)).toBe("http://localhost:3050/mcp")
    expect(await findServer("example.com/mcp", network({}).fetch)).toBe("https://example.com/mcp")
  })

  test("if it answers MCP, without waiting for cards", async () => {
    const url = "https://example.com/api"
    const answers = [
      Response.json({ jsonrpc: "2.0", id: 1, error: { code: -32601, message: "no" } }, { status: 404 }),
      new Response("", { status: 401 }),
      new Response("", { headers: { "content-type": "text/event-stream" } }),
    ]
    for (const answer of answers)
      expect(
        await endpointOf(url, { [`POST ${url}`]: answer, [CATALOG]: "never", [`${url}/server-card`]: "never" }),
      ).toBe(url)
  })

  test("if nothing is found; but a host alone is not an address", async () => {
    expect(await endpointOf("https://example.com/api", {})).toBe("https://example.com/api")
    await expect(endpointOf("example.com", {})).rejects.toThrow(
      "no MCP server was found at https://example.com/; give the whole URL of its MCP endpoint, such as https://example.com/mcp",
    )
  })
})

describe("a public host cannot lead svc into its own network [cards:ssrf]", () => {
  test("by the endpoint of a card", async () => {
    for (const url of [
      "http://127.0.0.1:8080/mcp",
      "https://169.254.169.254/mcp",
      "http://example.com/mcp",
      "file:///x",
    ])
      await expect(endpointOf("example.com", { [CATALOG]: catalog({ data: card(url) }) })).rejects.toThrow(
        "the server card com.example/weather is refused",
      )
  })

  test("by the address of a card, or by a redirect", async () => {
    const inside = "http://10.0.0.1/card"
    const moved = new Response(null, { status: 302, headers: { location: inside } })
    const { asked, fetch } = network({
      [CATALOG]: catalog({ url: inside }, { url: "https://example.com/moved" }),
      "https://example.com/moved": moved,
      [inside]: card("https://example.com/mcp"),
    })
    await expect(findServer("example.com", fetch)).rejects.toThrow("no MCP server was found")
    expect(asked).not.toContain(`GET ${inside}`)
  })

  test("by a value that a person gives for a part of the address", async () => {
    const variables = { host: { isRequired: true } }
    const found = await findServer(
      "example.com",
      network({ [CATALOG]: catalog({ data: card("https://{host}/mcp", { variables }) }) }).fetch,
    )
    if (typeof found === "string") throw new Error("not found")
    expect(planFound(found, {}).missing).toMatchObject([{ name: "host" }])
    expect(planFound(found, { host: "eu.example.com" }).server.url).toBe("https://eu.example.com/mcp")
    expect(() => planFound(found, { host: "localhost" })).toThrow("refused")
  })
})

describe("a card can set nothing that HTTP controls, and no secret [cards:ssrf]", () => {
  const planOf = async (url: string, headers: readonly object[]) => {
    const found = await findServer(
      "example.com",
      network({ [CATALOG]: catalog({ data: card(url, { headers }) }) }).fetch,
    )
    if (typeof found === "string") throw new Error("not found")
    return planFound(found, {})
  }

  test.each([
    [{ name: "Host", value: "evil" }, "the header Host"],
    [{ name: "Transfer-Encoding", value: "chunked" }, "the header Transfer-Encoding"],
    [{ name: "proxy-authorization" }, "the header proxy-authorization"],
    [{ name: "Content-Length", isRequired: true }, "the header Content-Length"],
    [{ name: "Mcp-Session-Id", value: "1" }, "the header Mcp-Session-Id"],
    [{ name: "X A", value: "a" }, "an invalid header"],
  ])("by the header %j", async (header, reason) => {
    await expect(planOf("https://example.com/x/mcp", [header])).rejects.toThrow(reason)
  })

  test("by a user name or a password in the address", async () => {
    for (const user of ["ada:pw", "ada"])
      await expect(planOf(`https://${user}@example.com/x/mcp`, [])).rejects.toThrow("a user name or a password")
  })

  test("and the values that it may set are described as they are sent", async () => {
    const { server } = await planOf("https://example.com/$1/mcp", [{ name: "X-Key", value: "${HOME}" }])
    expect(describeEndpoint(server)).toBe("https://example.com/$1/mcp\n  with the header X-Key: ${HOME}")
  })
})

test("mcp_install shows the card, the endpoint and what it needs, and writes both [cards:read]", async () => {
  const headers = [
    {
      name: "Authorization",
      isRequired: true,
      isSecret: true,
      value: "Bearer {token}",
      variables: { token: { isRequired: true, isSecret: true } },
    },
  ]
  const { fetch } = network({ [CATALOG]: catalog({ data: card("https://example.com/$1/mcp", { headers }) }) })
  await using at = stage({ fetch })
  const install = (args: object) =>
    mcpInstall.run({ serverName: "w", url: "example.com", enabled: false, ...args }, at.context)
  const plan = await install({ dryRun: true })
  expect(plan.data).toMatchObject({
    source: `the server card com.example/weather at ${CATALOG}`,
    missing: [{ name: "token", secret: true }],
  })
  const { data } = await install({ env: { token: "s3cret-value" } })
  expect(data).toMatchObject({ installed: true, version: "1.0.0" })
  const text = await Bun.file(at.paths.file).text()
  expect(text).not.toContain("s3cret-value")
  expect(JSON.parse(text).mcpServers.w).toMatchObject({ type: "streamableHttp", url: "https://example.com/$$1/mcp" })
})
