/** Parallel calls of modern clients over HTTP, which have no session, through one shared legacy stdio server. */
import { expect, test } from "bun:test"
import { eventually, fixture, freshEnv, type Instance, modern, runSvc, startSvc } from "./harness.ts"

const config = { mcpServers: { s: { command: process.execPath, args: [fixture("cancelled.ts")] } } }
const CAPABLE = {
  "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
  "io.modelcontextprotocol/clientInfo": { name: "agent", version: "1" },
}

type Result = {
  readonly requestState?: string
  readonly inputRequests?: Readonly<Record<string, { readonly params: { readonly message: string } }>>
  readonly content?: readonly { readonly text: string }[]
}

/** Calls a tool with what a client states: its headers and its `_meta`. */
const callOf =
  ({ url }: Instance, headers: Record<string, string> = {}, meta: object = {}) =>
  async (name: string, by: string, more: object = {}): Promise<Result> => {
    const params = { name: `s_svc_${name}`, arguments: { by }, ...more, _meta: { ...CAPABLE, ...meta } }
    return (await modern(`${url}/mcp`, "tools/call", params, headers)).body.result as Result
  }
type Call = ReturnType<typeof callOf>

const answersTo = ({ requestState, inputRequests = {} }: Result) => ({
  requestState,
  inputResponses: Object.fromEntries(Object.keys(inputRequests).map((key) => [key, { action: "accept" }])),
})
const questionsOf = ({ inputRequests = {} }: Result) => Object.values(inputRequests).map(({ params }) => params.message)

/** Makes two calls that each ask a question, the second while the first waits for its client. Returns the second result. */
async function whileAsked(first: Call, second: Call): Promise<string[]> {
  const held = await first("ask", "first")
  expect(questionsOf(held)).toEqual(["of first"])
  const shown = await second("ask", "second")
  const end = shown.content === undefined ? await second("ask", "second", answersTo(shown)) : shown
  await first("ask", "first", answersTo(held))
  return [...questionsOf(shown), ...(end.content ?? []).map(({ text }) => text)]
}

// A question that may be of several clients is refused after half a minute: the tests wait for it at the same time.
test.concurrent("questions of parallel calls of one client are asked, those of calls of different clients are refused [protocol:whose:caller]", async () => {
  await using svc = await startSvc({ config })
  const own = callOf(svc)
  expect(await whileAsked(own, callOf(svc))).toEqual(["of second", '{"action":"accept"}'])
  const others = [
    callOf(svc, {}, { "io.modelcontextprotocol/clientInfo": { name: "agent", version: "2" } }),
    callOf(svc, {}, { "io.modelcontextprotocol/clientInfo": undefined }),
    ...["x-forwarded-for", "x-forwarded-host", "forwarded", "via", "cf-connecting-ip", "true-client-ip"].map((header) =>
      callOf(svc, { [header]: "192.0.2.1" }),
    ),
    callOf(svc, {}, { "svc/context": { project: { path: "/b" } } }),
  ]
  const held = await own("ask", "first")
  const refused = await Promise.all(others.map((other) => other("ask", "second")))
  for (const { content } of refused)
    expect(content?.[0]?.text).toMatch(/several clients.*one after the other.*clients of 2026-07-28 have no session/)
  await own("ask", "first", answersTo(held))
}, 90_000)

test.concurrent("without a token, svc behind another address never treats two requests as those of one client [protocol:whose:caller]", async () => {
  await using svc = await startSvc({ config, flags: ["--external-url", "https://svc.example.com"] })
  expect((await whileAsked(callOf(svc), callOf(svc)))[0]).toContain("several clients")
}, 90_000)

test.concurrent("requests with the same token come from one client, with two tokens from two clients [protocol:whose:caller]", async () => {
  await using svc = await startSvc({ config, flags: ["--auth", "--external-url", "https://svc.example.com"] })
  const holder = async (name: string) => {
    const made = await runSvc(
      ["auth", "token", "create", "--name", name, "--config-dir", svc.folder],
      freshEnv(svc.folder),
    )
    const headers = { authorization: `Bearer ${made.stdout.trim()}` }
    await eventually(async () => (await modern(`${svc.url}/mcp`, "server/discover", {}, headers)).status === 200)
    return callOf(svc, headers)
  }
  const [ann, bob] = [await holder("ann"), await holder("bob")]
  // Questions contain the name of their client: the question of one never appears in a result of the other.
  const held = await ann("ask", "ann")
  expect(questionsOf(held)).toEqual(["of ann"])
  expect((await bob("ask", "bob")).content?.[0]?.text).toContain("several clients")
  const next = await ann("ask", "ann again")
  expect(questionsOf(next)).toEqual(["of ann again"])
  // Questions contain the name of their client: the question of one never appears in a result of the other.
  const last = bob("ask", "bob")
  const ends = await Promise.all([ann("ask", "ann", answersTo(held)), ann("ask", "ann again", answersTo(next))])
  expect(ends.map(({ content }) => content?.[0]?.text)).toEqual(['{"action":"accept"}', '{"action":"accept"}'])
  // Held until only bob's call was left.
  expect(questionsOf(await last)).toEqual(["of bob"])
  await bob("ask", "bob", answersTo(await last))
}, 90_000)
