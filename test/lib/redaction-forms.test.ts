import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"
import { createRedactor } from "../../src/lib/redact.ts"
import { CREDENTIALS } from "../../src/lib/redaction-patterns.ts"

const { maskCredentials, redactAll } = createRedactor([])

/** Returns the lines of a table; in those of credentials and places, the parts between « and » must be hidden. */
const lines = (table: string): readonly [string][] =>
  readFileSync(join(import.meta.dir, "../fixtures/redaction", `${table}.txt`), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => [line])

/** Returns a RegExp for the rest of a line around its marked parts. */
const around = (line: string): RegExp =>
  new RegExp(
    `^${line
      .split(/«[^»]*»/)
      .map(RegExp.escape)
      .join("[\\s\\S]+?")}$`,
  )

function expectHidden(redact: (text: string) => string, line: string): void {
  const text = line.replace(/[«»]/g, "")
  const shown = redact(text)
  for (const [, part = ""] of line.matchAll(/«([^»]*)»/g)) expect(shown).not.toContain(part)
  expect(shown).toMatch(around(line))
}

describe("forms of credentials [health:sanitize:credentials]", () => {
  test.each(lines("credentials"))("%s", (line) => expectHidden(maskCredentials, line))
})

describe("forms of places [health:sanitize:places]", () => {
  test.each(lines("places"))("%s", (line) => expectHidden(redactAll, line))
})

describe("nothing is taken of harmless texts [health:sanitize:harmless]", () => {
  test.each(lines("harmless"))("%s", (line) => {
    expect(redactAll(line)).toBe(line)
    expect(maskCredentials(line)).toBe(line)
  })
})

test("a pattern that needs a word hides nothing in texts without it [health:sanitize:credentials]", () => {
  const texts = ["credentials", "harmless", "places"].flatMap(lines).map(([line]) => line.replace(/[«»]/g, ""))
  const words = fc.array(fc.constantFrom(...new Set(texts.flatMap((text) => text.split(/(?=[\s"'=:-])/)))))
  const untouched = (text: string) => {
    for (const { name, find, needs } of CREDENTIALS)
      if (needs?.test(text) === false && text.search(find) >= 0) throw new Error(`${name} hides a part of: ${text}`)
  }
  texts.forEach(untouched)
  fc.assert(fc.property(words, (parts) => untouched(parts.join(""))))
  // Each is in use.
  expect(CREDENTIALS.filter(({ needs }) => needs !== undefined && texts.every((text) => needs.test(text)))).toEqual([])
})
