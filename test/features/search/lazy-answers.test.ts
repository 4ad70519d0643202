/** The tokens that the search tools of a lazy view cost, measured with a real tokenizer. */
import { describe, expect, test } from "bun:test"
import { Tiktoken } from "js-tiktoken/lite"
import ranks from "js-tiktoken/ranks/cl100k_base"
import { lineOf, oneLine, signatureOf } from "../../../src/catalog/signature.ts"
import { LAZY_TOOLS } from "../../../src/features/search/lazy-tools.ts"
import { recordedServers } from "../../bench/search/golden.ts"

const tokenizer = new Tiktoken(ranks)
const count = (text: string): number => tokenizer.encode(text).length

test("the tools of a lazy view take less than 500 tokens [lazy:list]", () => {
  expect(count(`{"tools":[${LAZY_TOOLS.join(",")}]}`)).toBeLessThan(500)
})

test("a hit of hostile text takes at most 60 tokens on one line [lazy:search]", () => {
  const texts = [
    `Z${"\u0336".repeat(200)}`,
    "😀".repeat(200),
    "aBcDeFgHiJkLmNoP".repeat(20),
    "xqzjkvwqxzjk".repeat(20),
    "0f3a9c".repeat(40),
    "⠁⠂⠃".repeat(60),
    "ཀཁགངཅ".repeat(60),
    "!?#$%^&*~`|\\".repeat(20),
    "x\u200by".repeat(60),
    "Þæð ".repeat(40),
  ]
  for (const text of texts)
    for (const name of ["tool", text.slice(0, 60), text]) {
      const properties = { [text.slice(0, 40)]: { enum: [text, text.slice(3)] }, plain: { type: text } }
      const line = lineOf({ name, description: text, inputSchema: { type: "object", properties } }, "summary")
      expect([line, count(line) <= 60, line.isWellFormed()]).toEqual([line, true, true])
    }
})

test("a hit takes at most 60 tokens on one line, and names the whole tool [lazy:search]", () => {
  for (const { name: server, tools } of recordedServers())
    for (const tool of tools) {
      const name = `${server}_svc_${tool.name}`
      const line = lineOf({ ...tool, name, annotations: { readOnlyHint: true } }, "summary")
      expect(line).toStartWith(`- ${name}(`)
      expect(line).not.toContain("\n")
      expect([line, count(line) <= 60, line.length <= 210]).toEqual([line, true, true])
    }
})

describe("a signature", () => {
  const of = (properties: object, more: object = {}) => signatureOf({ type: "object", properties, ...more }, 100)

  test("has required parameters first, with short types", () => {
    expect(
      of(
        {
          head: { type: "integer" },
          path: { type: "string" },
          mode: { enum: ["fast", "slow"] },
          tags: { type: "array", items: { type: "string" } },
          at: { type: ["string", "null"] },
          any: {},
        },
        { required: ["path"] },
      ),
    ).toBe("path*: str, head?: int, mode?: fast|slow, tags?: str[], at?: str|null, any?: any")
  })

  test("shows objects one level deep, unions and local references", () => {
    expect(
      of(
        {
          user: {
            type: "object",
            properties: { name: {}, address: { type: "object", properties: { x: {} } } },
            required: ["name"],
          },
          size: { anyOf: [{ type: "number" }, { $ref: "#/$defs/preset" }] },
        },
        { $defs: { preset: { enum: ["a b", 1, "c", "d", "e", "f"] } } },
      ),
    ).toBe('user?: {name*, address}, size?: num|"a b"|1|c|d|e|…')
  })

  test("has the parameters of a schema that is composed of others", () => {
    const [path, url] = [{ type: "string" }, { type: "string" }]
    const choices = [
      { properties: { path, mode: {} }, required: ["path", "mode"] },
      { properties: { url, mode: {} }, required: ["url", "mode"] },
    ]
    for (const key of ["anyOf", "oneOf"])
      expect(signatureOf({ type: "object", [key]: choices }, 100)).toBe("mode*: any, path?: str, url?: str")
    expect(signatureOf({ type: "object", allOf: choices }, 100)).toBe("path*: str, mode*: any, url*: str")
    const $defs = { whole: { allOf: [{ $ref: "#/$defs/part" }], properties: { url } }, part: choices[0] }
    expect(signatureOf({ $ref: "#/$defs/whole", $defs }, 100)).toBe("path*: str, mode*: any, url?: str")
    const loop = { anyOf: [{ $ref: "#/$defs/loop" }, { $ref: "#/$defs/loop" }], properties: { path } }
    expect(signatureOf({ $ref: "#/$defs/loop", $defs: { loop } }, 100)).toBe("path?: str")
  })

  test("ends with an ellipsis if there is no room, and does not fail on invalid schemas", () => {
    const properties = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`parameter${at}`, { type: "string" }]))
    expect(signatureOf({ properties }, 20)).toEndWith(", …")
    const loop = {
      $defs: { a: { type: "array", items: { $ref: "#/$defs/a" } } },
      properties: { a: { $ref: "#/$defs/a" } },
    }
    expect(signatureOf(loop, 100)).toBe("a?: any[][][][]")
    for (const schema of [undefined, null, 1, { properties: 1 }, { properties: { a: null }, required: "a" }])
      expect(signatureOf(schema, 100)).toBeString()
  })
})

test("a text of a server stays on one line, without characters that hide or move others", () => {
  expect(oneLine("a\r\n# b\u2028c\u0000d\u202Ee\u{E0041}f", 100)).toBe("a # b c d e f")
  expect(oneLine("half \uD83D of a pair", 100)).toBe("half \uFFFD of a pair")
  expect(oneLine(`${"word ".repeat(100)}`, 10)).toBe("word word word word word word word word word…")
})
