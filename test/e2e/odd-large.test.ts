/** Large results that are not JSON, or claim to be more than a result: they harm no call but their own. */
import { expect, test } from "bun:test"
import { fixture, freshFolder, modern, modernRequest, runSvc, startHttp, startSvc } from "./harness.ts"

const stdio = { command: "bun", args: [fixture("odd-large.ts")] }

test("over HTTP, a large result that is not JSON reaches its own call alone, and one with a second id reaches nobody [frame:large]", async () => {
  const remote = await startHttp("odd-large.ts")
  // A process that a failed test leaves would hold the output of the run open.
  await using _ended = { [Symbol.asyncDispose]: () => remote.stop() }
  await using svc = await startSvc({ config: { mcpServers: { stdio, http: { url: remote.url, type: "http" } } } })
  // An answer that svc sends while it arrives is broken off.
  const call = (name: string) =>
    fetch(`${svc.url}/mcp`, modernRequest("tools/call", { name, arguments: {} }))
      .then((response) => response.text())
      .catch(() => undefined)
  for (const server of ["stdio", "http"]) {
    const [fine, malformed, smuggled, again] = await Promise.all(
      ["fine", "malformed", "smuggled", "fine"].map((tool) => call(`${server}_svc_${tool}`)),
    )
    for (const text of [fine, again])
      expect(JSON.parse(text ?? "")).toMatchObject({ id: 1, result: { resultType: "complete" } })
    expect(() => JSON.parse(malformed ?? "")).toThrow()
    if (smuggled !== undefined) {
      expect(JSON.parse(smuggled)).toMatchObject({ id: 1, result: { isError: true } })
      expect(smuggled).not.toContain("xxx")
    }
  }
  const { body } = await modern(`${svc.url}/mcp`, "tools/call", { name: "http_svc_fine", arguments: {} })
  expect(JSON.stringify(body.result)).toContain("xxx")
}, 30_000)

test("on stdio, where a line could harm others, a large result that is not JSON is an error [frame:large]", async () => {
  const folder = freshFolder({ "mcp.json": JSON.stringify({ mcpServers: { odd: stdio } }) })
  const request = (id: number, method: string, params: object) => JSON.stringify({ jsonrpc: "2.0", id, method, params })
  const lines = [
    request(1, "initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "test", version: "1" },
    }),
    ...["malformed", "fine"].map((tool, at) =>
      request(at + 2, "tools/call", { name: `odd_svc_${tool}`, arguments: {} }),
    ),
  ]
  const { stdout } = await runSvc(
    ["serve", "--transport", "stdio", "--config-dir", folder],
    {},
    `${lines.join("\n")}\n`,
  )
  const answers = new Map(
    stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
      .map((message) => [message.id, message.result]),
  )
  expect(answers.get(2)).toMatchObject({ isError: true })
  expect(JSON.stringify(answers.get(2))).toContain("not JSON")
  expect(answers.get(3)?.content[0].text).toHaveLength(200_000)
}, 30_000)
