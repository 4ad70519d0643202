import { expect, test } from "bun:test"
import { openLogging } from "../../src/app/logging.ts"
import { readServeOptions } from "../../src/app/serve-options.ts"
import { openUpstream } from "../../src/app/upstream.ts"
import { parseDocument } from "../../src/config/document.ts"
import { plan } from "../../src/config/plan.ts"

test("the upstream side works without sessions, and its log redacts secrets of later plans", async () => {
  const logging = openLogging({ logLevel: "error", logFormat: "text" }, undefined)
  const { agent, instances } = await openUpstream(readServeOptions({}, {}, ""), undefined, logging)
  const text = "the key is hunter2hunter2"
  expect(logging.redactor().maskKnown(text)).toBe(text)
  const server = { command: "true", env: { API_KEY: "hunter2hunter2" } }
  const document = parseDocument(JSON.stringify({ mcpServers: { web: server } }), "mcp.json")
  instances.update(plan(document, { parent: {}, dotenv: {}, platform: "linux", home: "/", folder: "/" }))
  expect(logging.redactor().maskKnown(text)).toBe("the key is [REDACTED]")
  await agent.close()
})

test("the OAuth callback exists as soon as the public address is known", async () => {
  const logging = openLogging({ logLevel: "error", logFormat: "text" }, undefined)
  const { agent, oauth, setPublicUrl } = await openUpstream(readServeOptions({}, {}, ""), undefined, logging)
  expect(oauth.callback()).toBeUndefined()
  setPublicUrl("https://svc.example/")
  expect(oauth.callback()).toBe("https://svc.example/oauth/callback")
  await agent.close()
})
