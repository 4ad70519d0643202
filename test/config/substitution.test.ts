import { expect, test } from "bun:test"
import { escapeTyped, substitute } from "../../src/config/substitution.ts"

test("references without an end stay text, and take linear time", () => {
  const open = "${A:-${input:${env:A".repeat(100_000)
  const lookup = (name: string) => (name === "A" || name === "B" ? "v" : undefined)
  for (const { end, substituted, escaped } of [
    { end: "", substituted: "", escaped: "" },
    { end: "$$ $A $", substituted: "$ v $", escaped: "$$$ $$A $" },
  ]) {
    const text = `$A\${B}${open}${end}`
    expect(substitute(text, lookup).text === `vv${open}${substituted}`).toBe(true)
    expect(escapeTyped(text) === `$$A\${B}${open}${escaped}`).toBe(true)
  }
})
