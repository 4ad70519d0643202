import { expect, test } from "bun:test"
import { escapeTyped, foreignReferences, referencesIn, substitute } from "../../src/config/substitution.ts"

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

const VALUES: Readonly<Record<string, string>> = { A: "a", EMPTY: "", HOME: "/h" }
const lookup = (name: string) => (Object.hasOwn(VALUES, name) ? VALUES[name] : undefined)

test.each([
  ["${UNSET:-${HOME}/.ai}:/root", "/h/.ai:/root"],
  ["${A:-${HOME}/.ai}:/root", "a:/root"],
  ["${EMPTY:-x$HOME}", "x/h"],
  ["${UNSET:-${EMPTY:-${A}}}", "a"],
  ["${UNSET:-$${A}}", "${A}"],
  ["${UNSET:-}", ""],
  ["$A$$A${A}${env:A}", "a$Aaa"],
])("a default may contain references: %s [env:substitute:nested]", (text, expected) => {
  expect(substitute(text, lookup)).toMatchObject({ text: expected, missing: [] })
})

test("a reference in a default counts only where the default is used [env:substitute:nested]", () => {
  expect(substitute("${A:-${UNSET}}", lookup).missing).toEqual([])
  expect(substitute("${OTHER:-${UNSET}}", lookup).missing).toEqual(["UNSET"])
})

test("defaults nested without end take linear time [env:substitute:nested]", () => {
  const text = `${"${UNSET:-".repeat(100_000)}${"}".repeat(100_000)}`
  expect(substitute(text, lookup).missing).toEqual([])
})

test.each([
  ["${X:?message}", ["${X:?message}"]],
  ["${X-default}", ["${X-default}"]],
  ["${config:a}/${env.X}", ["${config:a}", "${env.X}"]],
  ["Bearer ${{ secrets.X }}", ["${{ secrets.X }}"]],
  ["${A} ${HOME/x", ["${"]],
  ["${ ${A} }", ["${"]],
  ["${A} $A $${X-d} $ {x} ${env:A} ${UNSET:-d} ${keychain:k} ${file:/a b} ${cmd:op read x}", []],
])("what only looks like a reference is found: %s [env:substitute:lookalike]", (text, foreign) => {
  expect(foreignReferences(text)).toEqual(foreign)
})

test("braces within the quotes of a command belong to it [secrets:reference]", () => {
  for (const inside of [
    "cmd:sh -c 'echo {a}b'",
    'cmd:jq -r ".a | {b: .c} | .b" x.json',
    'cmd:sh -c "echo \\"}\\" \'}\'"',
    "cmd:sh -c 'echo ${X}' }",
    "cmd:op read ${A}",
  ])
    expect(referencesIn(`x \${${inside.replace(/ \}$/, "")}} y \${A}`)).toEqual([inside.replace(/ \}$/, ""), "A"])
  expect(referencesIn("${UNSET:-${cmd:echo '}'}} ${A}")).toEqual(["UNSET", "cmd:echo '}'", "A"])
  // Elsewhere, quotes are letters.
  expect(referencesIn("${keychain:it's} ${file:/a'} '${A}'")).toEqual(["keychain:it's", "file:/a'", "A"])
  // A quote that is not closed does not take the rest of the text.
  expect(referencesIn("${cmd:echo it's} ${A}")).toEqual(["cmd:echo it's", "A"])
  expect(referencesIn("${cmd:echo it's} and it's ${A}")).toEqual(["cmd:echo it's", "A"])
  const open = "${cmd:'".repeat(100_000)
  expect(referencesIn(open)).toEqual([])
})

test("references with a scheme are looked up whole", () => {
  expect(referencesIn("${keychain:my key} ${file:/run/x} ${cmd:op read 'op://a/b'} ${UNSET:-${file:d}}")).toEqual([
    "keychain:my key",
    "file:/run/x",
    "cmd:op read 'op://a/b'",
    "UNSET",
    "file:d",
  ])
})
