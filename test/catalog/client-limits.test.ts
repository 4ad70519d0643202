import { expect, test } from "bun:test"
import { limitWarnings, longList } from "../../src/catalog/client-limits.ts"

test("long and missing descriptions, long names and long lists are warned of, a few names each [context:warnings]", () => {
  const fine = { name: "fine", description: "x".repeat(2048) }
  expect(limitWarnings([fine], ["s_svc_fine", "n".repeat(64)])).toEqual([])
  const tools = [
    fine,
    { name: "long", description: "x".repeat(2049) },
    { name: "none" },
    { name: "blank", description: " " },
  ]
  expect(limitWarnings(tools, ["n".repeat(65)])).toEqual([
    "descriptions over 2048 characters, which clients cut: long",
    "tools without a description, which models seldom choose: none, blank",
    `names over 64 characters, which clients refuse (--max-tool-name 64 shortens them): ${"n".repeat(65)}`,
  ])
  const choices = { type: "object", anyOf: [{ required: ["a"] }] }
  expect(limitWarnings([{ ...fine, inputSchema: choices }], ["s_svc_a.b", "s_svc_día"])).toEqual([
    "names with characters other than letters, digits, _ and -, which model APIs refuse (--max-tool-name 64 replaces them): s_svc_a.b, s_svc_día",
    "tools with anyOf, oneOf, allOf at the top of their input schema, which some model APIs refuse: fine",
  ])
  const many = ["a", "b", "c", "d", "e"].map((name) => ({ name }))
  expect(limitWarnings(many, [])).toEqual([
    "tools without a description, which models seldom choose: a, b, c and 2 more",
  ])
  expect(longList(100)).toEqual([])
  expect(longList(101)).toEqual([expect.stringContaining("101 tools")])
})
