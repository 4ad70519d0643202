/** The registries of mcp.json. */
import { expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import { readRegistries, redactedUrl, registrySecrets } from "../../src/config/registries.ts"

test("the address of a registry may have references, whose values are not shown [secrets:moved]", () => {
  const registries = [{ name: "ours", url: "https://example.com/${OURS_KEY}/api" }]
  const document = parseDocument(JSON.stringify({ registries }), "mcp.json")
  const read = (dotenv: Record<string, string>) => readRegistries(document, { platform: "linux", parent: {}, dotenv })
  const [source] = read({ OURS_KEY: "canary" })
  if (source === undefined) throw new Error("no registry")
  expect(source.url).toBe("https://example.com/canary/api")
  expect(redactedUrl(source)).toBe("https://example.com/[REDACTED]/api")
  expect(registrySecrets(source)).toContain("canary")
  expect(() => read({})).toThrow("registry ours refers to OURS_KEY, which is not set")
})
