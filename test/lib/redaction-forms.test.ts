import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { createRedactor } from "../../src/lib/redact.ts"

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
