import { expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { compareFacts, factsOf } from "../scripts/draft.ts"
import { MODERN_VERSION } from "../src/wire/era.ts"
import { runProgram } from "./process.ts"

const request = (method: string, params: object) => ({
  properties: { method: { const: method }, params: { properties: params, required: ["name"] } },
  required: ["method"],
})
const SCHEMA = {
  $defs: {
    CallToolRequest: request("tools/call", { name: { type: "string" }, arguments: { type: "object" } }),
    PingRequest: request("ping", {}),
    ServerCapabilities: { properties: { tools: { properties: { listChanged: { type: "boolean" } } } } },
  },
}
const PAGES = ["Send `MCP-Protocol-Version` and `Mcp-Name`; refuse with -32602."]

/** Returns the differences between the base and a changed copy, as short texts. */
function differences(change: (schema: typeof SCHEMA) => unknown, pages = PAGES): readonly string[] {
  const found = compareFacts(factsOf(SCHEMA, PAGES), factsOf(change(structuredClone(SCHEMA)), pages))
  return found.map(({ change, kind, name }) => `${change} ${kind} ${name}`)
}

test("the comparison of two revisions lists each added, removed and changed method, field, capability, error and header", () => {
  expect(differences((same) => same)).toEqual([])
  expect(
    differences(({ $defs: { PingRequest: _gone, ...$defs } }) => ({
      $defs: { ...$defs, Discover: request("server/discover", {}) },
    })),
  ).toEqual([
    "removed method ping",
    "added method server/discover",
    "added field Discover.method",
    "added field Discover.params",
    "removed field PingRequest.method",
    "removed field PingRequest.params",
  ])
  expect(
    differences((schema) => {
      const { properties, required } = schema.$defs.CallToolRequest.properties.params as never as {
        properties: Record<string, unknown>
        required: string[]
      }
      delete properties.arguments
      properties.name = { type: "integer" }
      properties.extra = { type: "string" }
      required.push("extra")
      return schema
    }),
  ).toEqual([
    "removed field CallToolRequest.params.arguments",
    "added field CallToolRequest.params.extra",
    "changed field CallToolRequest.params.name",
  ])
  expect(
    differences((schema) => {
      const { ServerCapabilities } = schema.$defs
      Object.assign(ServerCapabilities.properties, { skills: { type: "object" } })
      return schema
    }),
  ).toEqual(["added capability ServerCapabilities.skills"])
  expect(differences((same) => same, ["Send `MCP-Protocol-Version` and `Mcp-Trace`; refuse with -32099."])).toEqual([
    "added error -32099",
    "removed error -32602",
    "removed header mcp-name",
    "added header mcp-trace",
  ])
})

test("words do not count, and a member that becomes required does", () => {
  expect(
    differences((schema) => {
      Object.assign(schema.$defs.CallToolRequest.properties.method, { description: "other words" })
      return schema
    }),
  ).toEqual([])
  expect(
    differences((schema) => {
      schema.$defs.CallToolRequest.required.push("params")
      return schema
    }),
  ).toEqual(["changed field CallToolRequest.params"])
})

test("the script reads a checkout of the specification", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-draft-"))
  const write = (revision: string, schema: object) => {
    for (const path of [join("schema", revision), join("docs", "specification", revision)])
      mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, "schema", revision, "schema.json"), JSON.stringify(schema))
    writeFileSync(join(folder, "docs", "specification", revision, "index.mdx"), PAGES.join("\n"))
    writeFileSync(join(folder, "docs", "specification", revision, "changelog.mdx"), `-320${revision.length}0`)
  }
  const compare = () => runProgram(["bun", "scripts/draft.ts", folder], { cwd: join(import.meta.dir, "..") })
  write(MODERN_VERSION, SCHEMA)
  write("draft", SCHEMA)
  expect(await compare()).toMatchObject({
    code: 0,
    stdout: `the draft differs from ${MODERN_VERSION} in 0 places\n`,
  })
  write("draft", { $defs: { ...SCHEMA.$defs, New: request("new/method", {}) } })
  const { code, stdout } = await compare()
  expect([code, stdout]).toEqual([1, expect.stringContaining("added    method     new/method\n")])
})
