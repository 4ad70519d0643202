/** Tests the common parts of internal tools: arguments, results, and failures with a code and a hint. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as z from "zod"
import { RegistryError } from "../../../src/features/registry/client.ts"
import {
  defineTool,
  type InternalTool,
  invokeTool,
  READS,
  SERVER_NAME,
  TOOL_FAULTS,
  type ToolContext,
  ToolError,
  toolEntry,
} from "../../../src/features/tools/tool.ts"
import { TOOLS } from "../../../src/features/tools/toolbox.ts"
import { ConfigError, RequestError } from "../../../src/lib/errors.ts"
import type { Params } from "../../../src/wire/message.ts"

/** Runs a tool with two arguments that answers `run`'s result, and returns the result and svc's own errors. */
async function invoke(
  args: Params,
  run: (args: Params) => { data: { warnings: string[]; absent?: string | undefined }; text: string },
) {
  const bugs: unknown[] = []
  const one = defineTool({
    name: "t",
    category: "management",
    title: "T",
    description: "d",
    annotations: READS,
    input: z.object({ serverName: SERVER_NAME, limit: z.number().default(3) }),
    output: z.object({ warnings: z.array(z.string()), absent: z.string().optional() }),
    run,
  })
  const context = { maskCredentials: (text: string) => text.replaceAll("sekret", "•••") } as ToolContext
  const result = await invokeTool(one, args, context, (error) => void bugs.push(error))
  return { ...result, text: result.content[0]?.text, bugs }
}
const echo = (args: Params) => ({ data: { warnings: [], absent: undefined }, text: JSON.stringify(args) })

test("arguments are checked: aliases, null for absent, and the nearest name", async () => {
  for (const key of ["serverName", "name", "server"])
    expect((await invoke({ [key]: "a", limit: null }, echo)).text).toBe('{"serverName":"a","limit":3}')
  const message = async (args: Params) => (await invoke(args, echo)).structuredContent.error
  expect(await message({ serverNam: "a" })).toMatchObject({
    code: "invalid_argument",
    message: 'There is no argument "serverNam"; did you mean "serverName"?',
  })
  expect(await message({ serverName: "a", zzzzzz: 1 })).toMatchObject({
    message: 'There is no argument "zzzzzz"; the arguments are: serverName, limit',
  })
  expect(await message({ serverName: "a", limit: "sekret" })).toMatchObject({
    message: expect.stringMatching(/^"limit": (?!.*sekret)/),
  })
})

test("arguments of any size are refused before they cost anything", async () => {
  for (const args of [
    { serverName: "a".repeat(300_000) },
    { serverName: "a", list: Array.from({ length: 3000 }, () => 1) },
    { serverName: "a", nested: { list: Array.from({ length: 300 }, () => ["long".repeat(300)]) } },
    { serverName: "a", ["k".repeat(300_000)]: 1 },
  ]) {
    const { structuredContent } = await invoke(args, echo)
    expect(structuredContent.error).toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining("more than 2000 values, or 256 KiB of text"),
    })
  }
  const { text } = await invoke({ serverName: "a".repeat(250_000) }, echo)
  expect(text?.length).toBeGreaterThan(250_000)
})

test("a result has its warnings in the text, no secrets, and no members that are undefined", async () => {
  const { text, structuredContent, isError } = await invoke({ name: "a" }, () => ({
    data: { warnings: ["a sekret"], absent: undefined },
    text: "done",
  }))
  expect([text, isError]).toEqual(["done\nwarning: a •••", undefined])
  expect(Object.entries(structuredContent)).toEqual([["warnings", ["a •••"]]])
})

test("a failure has a code, and its hint is data beside the message", async () => {
  const failing = (error: unknown) =>
    invoke({ name: "a" }, () => {
      throw error
    })
  const hint = { tool: "mcp_list", args: {}, does: "shows the servers" }
  const hinted = await failing(new ToolError("not_found", "No sekret", { hint, data: { log: ["line"] } }))
  expect([hinted.text, hinted.isError]).toEqual(["No •••; mcp_list shows the servers\n  line", true])
  expect(hinted.structuredContent).toEqual({ log: ["line"], error: { code: "not_found", message: "No •••", hint } })
  const codes: readonly (readonly [unknown, string])[] = [
    [new RegistryError("test", "is down"), "registry_unavailable"],
    [new RequestError("not_found", "m"), "not_found"],
    [new RequestError("conflict", "m"), "conflict"],
    [new RequestError("invalid_params", "m"), "invalid_argument"],
    [new ConfigError([{ code: "c", severity: "error", message: "m" }]), "invalid_argument"],
    [new TypeError("a bug"), "internal"],
  ]
  for (const [error, code] of codes) {
    const { structuredContent, bugs } = await failing(error)
    expect(structuredContent.error).toMatchObject({ code })
    expect(bugs).toEqual(code === "internal" ? [error] : [])
  }
})

test("the output schema and the documentation list every code of a failure [tools:codes]", () => {
  const { outputSchema } = JSON.parse(toolEntry(TOOLS[0] as InternalTool))
  expect(outputSchema.properties.error.properties.code.enum).toEqual([...TOOL_FAULTS])
  const page = readFileSync(join(import.meta.dir, "../../../docs/management-tools.md"), "utf8")
  const section = page.split("## Failures\n")[1]?.split("\n## ")[0] ?? ""
  expect([...section.matchAll(/^\| `(\w+)` \|/gm)].map(([, code]) => code)).toEqual([...TOOL_FAULTS])
})

test("an output schema admits failures, and descriptions name only tools that exist", () => {
  const names = TOOLS.map(({ name }) => name)
  for (const one of TOOLS) {
    const { outputSchema } = JSON.parse(toolEntry(one)) as { outputSchema: { anyOf: Params[]; properties: Params } }
    expect(outputSchema.anyOf).toContainEqual({ required: ["error"] })
    expect(outputSchema.properties.error).toMatchObject({ type: "object" })
    for (const [name] of one.description.matchAll(/mcp_\w+/g)) expect(names).toContain(name)
  }
})
