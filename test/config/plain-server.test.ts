import { expect, test } from "bun:test"
import fc from "fast-check"
import { isPlainServer } from "../../src/config/plain-server.ts"
import { serverSchema } from "../../src/config/schema.ts"

const text = fc.constantFrom("", "npx", "stdio", "http", "legacy", "session", "one", "pipe", "strict", "lazy")
const texts = fc.dictionary(fc.constantFrom("A", "name"), text)
const origin = fc.record(
  { registry: text, name: text, version: text, package: text, values: texts, more: text },
  { requiredKeys: ["registry", "name"] },
)
const number = fc.oneof(fc.integer({ min: -1, max: 3 }), fc.double(), fc.constant(2 ** 31))
const mixed = fc.oneof(text, number, fc.boolean(), fc.constant(null))
const value = fc.oneof(mixed, texts, origin, fc.array(text), fc.array(mixed), fc.dictionary(text, mixed))

test("what passes for plain, the schema accepts as it is", () => {
  const keys = Object.keys(serverSchema().shape)
  const plain = keys.filter((key) => {
    let isEver = false
    fc.assert(
      fc.property(value, (written) => {
        const server = { [key]: written }
        if (!isPlainServer(server)) return
        isEver = true
        expect(serverSchema().parse(server)).toEqual(server)
      }),
      { numRuns: 3000 },
    )
    return isEver
  })
  expect(keys.filter((key) => !plain.includes(key)).sort()).toEqual([
    "oauth",
    "resultBudget",
    "searchHint",
    "toolDescriptionOverrides",
    "toolOverrides",
  ])
  expect(isPlainServer({ name: "a key that the schema does not know" })).toBe(false)
})

test("a usual server is plain", () => {
  const usual = [
    { command: "npx", args: ["-y", "server"], env: { TOKEN: "${TOKEN}" } },
    {
      type: "http",
      url: "https://mcp.example.test/mcp",
      headers: { Authorization: "Bearer ${TOKEN}" },
      tags: ["work"],
    },
    { command: "node", disabled: true, requestTimeout: 5000, restartOnExit: true, protocolVersion: "legacy" },
  ]
  expect(usual.filter((written) => !isPlainServer(written))).toEqual([])
})
