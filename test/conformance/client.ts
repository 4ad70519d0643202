/**
 * svc as the suite's client under test: `bun client.ts URL`. Starts svc in front of the URL, connects an SDK client to svc
 * and does what the scenario (MCP_CONFORMANCE_SCENARIO) looks for.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { z } from "zod"

const url = process.argv.at(-1) ?? ""
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ""
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}") as {
  toolCalls?: { name: string; arguments: Record<string, unknown> }[]
  client_id?: string
  client_secret?: string
  private_key_pem?: string
  valid_jwt?: string
  idp_client_id?: string
  idp_id_token?: string
  idp_issuer?: string
}
type Skill = {
  readonly frontmatter: unknown
  readonly resources: readonly { readonly uri: string; readonly digest: string; readonly size: number }[]
}

/** The row that is measured: how svc speaks to the suite's server, how its client speaks to svc, and what else svc runs. */
const protocolVersion = process.env.SVC_SUITE_MODE ?? "auto"
const clientMode = process.env.SVC_SUITE_CLIENT === "modern" ? "auto" : "legacy"
const others =
  process.env.SVC_SUITE_BACKENDS === "3" ? { one: other("everything-1x.ts"), two: other("everything-2x.ts") } : {}

const folder = mkdtempSync(join(tmpdir(), "svc-client-"))
writeFileSync(
  join(folder, "mcp.json"),
  JSON.stringify({
    mcpServers: { it: { type: "streamableHttp", url, protocolVersion, oauth: oauthOf() }, ...others },
  }),
)
const svc = Bun.spawn({
  cmd: [
    join(import.meta.dir, "..", "..", "dist", "svc"),
    "serve",
    "--config-dir",
    folder,
    "--port",
    "0",
    "--startup-wait",
    "15s",
    "--health-info-level",
    "full",
    "--health-rate-limit",
    "off",
  ],
  env: { ...process.env, SVC_KEYCHAIN: "off" },
  stdin: "ignore",
  stderr: "pipe",
})
let said = ""
for await (const chunk of svc.stderr) {
  said += new TextDecoder().decode(chunk)
  if (said.includes("listening on ")) break
}
const base = /listening on (\S+)\/mcp/.exec(said)?.[1] ?? ""

/**
 * Does what a person does: opens the address that svc shows and follows it to its end, until nothing is wanted any more.
 * What wants more than that goes in a circle.
 */
async function authorize(): Promise<void> {
  const visited = new Set<string>()
  for (let tries = 0; tries < 300 && visited.size < MAX_VISITS; tries++) {
    const response = await fetch(`${base}/health/mcp/it`)
    const { state, authorizationUrl } = (await response.json()) as { state: string; authorizationUrl?: string }
    if (authorizationUrl !== undefined && !visited.has(authorizationUrl)) {
      visited.add(authorizationUrl)
      await (await fetch(authorizationUrl)).text()
    } else if (state === "ready" || state === "awaiting_oauth") return
    else await Bun.sleep(50)
  }
}
const MAX_VISITS = 3

const client = new Client(
  { name: "svc-conformance", version: "1.0.0" },
  {
    capabilities: { elicitation: { form: { applyDefaults: true } } },
    versionNegotiation: { mode: clientMode },
  },
)
client.setRequestHandler("elicitation/create", () => ({
  action: "accept" as const,
  content: scenario.startsWith("sep-2322") ? { confirmed: true } : {},
}))
let failed = false
try {
  if (scenario.startsWith("auth/")) await authorize()
  await client.connect(new StreamableHTTPClientTransport(new URL(`${base}/servers/it/mcp`)))
  const { tools } = await client.listTools()
  const argumentsOf = (name: string): Record<string, unknown> => {
    if (name === "add_numbers") return { a: 5, b: 3 }
    if (name === "json_schema_echo")
      return { schema: tools.find((tool) => tool.name === "json_schema_2020_12_tool")?.inputSchema }
    return scenario === "http-invalid-tool-headers" ? { region: "us-west1" } : {}
  }
  const calls = context.toolCalls ?? tools.map(({ name }) => ({ name, arguments: argumentsOf(name) }))
  if (scenario !== "initialize" && scenario !== "json-schema-ref-no-deref")
    for (const call of calls) {
      const result = await client.callTool(call).catch((error: unknown) => ({ isError: true, content: String(error) }))
      if (result.isError === true) process.stderr.write(`${call.name}: ${JSON.stringify(result.content)}\n`)
      if (result.isError !== true || !scenario.startsWith("auth/")) continue
      await authorize()
      await client.callTool(call).catch((error: unknown) => process.stderr.write(`${call.name}: ${error}\n`))
    }
  if (scenario === "http-standard-headers") {
    for (const { name } of (await client.listPrompts().catch(() => ({ prompts: [] }))).prompts)
      await client.getPrompt({ name, arguments: {} }).catch(() => undefined)
    for (const { uri } of (await client.listResources().catch(() => ({ resources: [] }))).resources)
      await client.readResource({ uri }).catch(() => undefined)
  }
  if (scenario.startsWith("sep-2640-")) await useSkills()
  await client.close()
} catch (error) {
  failed = true
  process.stderr.write(`${error}\n${said}\n`)
}
svc.kill()
await svc.exited
rmSync(folder, { recursive: true, force: true })
process.exit(failed ? 1 : 0)

/** Lists skills, and loads them as a host does: it reads a file only if those before it are what the list says. */
async function useSkills(): Promise<void> {
  const ask = (method: string, params = {}) => client.request({ method, params }, z.looseObject({}) as never)
  const { skills } = (await ask("skills/list")) as unknown as { skills: readonly Skill[] }
  if (scenario === "sep-2640-client-no-prefetch") return
  for (const { frontmatter, resources } of skills)
    for (const { uri, digest, size } of resources) {
      const { contents } = (await ask("resources/read", { uri })) as unknown as {
        contents: readonly [{ text: string }]
      }
      const [{ text }] = contents
      const sha256 = new Bun.CryptoHasher("sha256").update(text).digest("hex")
      const isAsListed =
        digest === `sha256:${sha256}` &&
        size === Buffer.byteLength(text) &&
        (!uri.endsWith("/SKILL.md") || Bun.deepEquals(Bun.YAML.parse(text.split("---")[1] ?? ""), frontmatter))
      if (!isAsListed) break
    }
}

function other(file: string): object {
  return { command: "bun", args: [join(import.meta.dir, "..", "fixtures", file)] }
}

/** The client that the scenario has registered, or the one that it knows by its metadata URL. */
function oauthOf(): Record<string, unknown> | undefined {
  const { client_id: clientId, client_secret: clientSecret, private_key_pem: key } = context
  if (scenario.startsWith("auth/client-credentials"))
    return {
      clientId,
      clientSecret: clientSecret ?? key,
      grantType: "client_credentials",
      ...(key === undefined ? {} : { tokenEndpointAuthMethod: "private_key_jwt" }),
    }
  if (scenario === "auth/wif-jwt-bearer") {
    writeFileSync(join(folder, "workload.jwt"), `${context.valid_jwt}\n`)
    return { clientId, grantType: "jwt-bearer", assertionFile: "workload.jwt" }
  }
  if (scenario === "auth/enterprise-managed-authorization")
    return {
      clientId,
      clientSecret,
      grantType: "token-exchange",
      identityProvider: context.idp_issuer,
      identityProviderClientId: context.idp_client_id,
      subjectToken: context.idp_id_token,
    }
  if (scenario === "auth/basic-cimd") return { clientId: "https://conformance-test.local/client-metadata.json" }
  return clientId === undefined ? undefined : { clientId, clientSecret }
}
