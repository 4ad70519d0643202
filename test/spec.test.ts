import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Glob } from "bun"
import { SPEC } from "./spec.ts"

/** The ids in brackets in the titles of tests that run: a skipped, planned or failing test proves nothing. */
const cited = new Set<string>()
for (const file of new Glob("**/*.test.ts").scanSync(import.meta.dir))
  for (const [, title = ""] of readFileSync(join(import.meta.dir, file), "utf8").matchAll(
    /^\s*(?:test|describe)(?!\.(?:skip|todo|failing)\b)[\w.]*\(\s*(?:(?:\[[\s\S]*?\]\s*(?:as const\s*)?|[A-Z_]+)\)\()?\s*"((?:[^"\\]|\\.)*)"/gm,
  ))
    for (const [, id = ""] of title.matchAll(/\[([a-z0-9-]+(?::[a-z0-9-]+)+)\]/gi)) cited.add(id)
const ids = Object.keys(SPEC)

test("every sentence is cited by a test that runs, or says why it is not built", () => {
  expect(ids.filter((id) => !cited.has(id) && SPEC[id]?.unbuilt === undefined)).toEqual([])
})

test("a sentence marked as unbuilt is cited by no test", () => {
  expect(ids.filter((id) => cited.has(id) && SPEC[id]?.unbuilt !== undefined)).toEqual([])
})

test("every cited id is in the specification", () => {
  expect([...cited].filter((id) => SPEC[id] === undefined)).toEqual([])
})

test("every sentence names a heading of the specification, or is a choice", () => {
  const text = readFileSync(join(import.meta.dir, "..", "docs", "specification.md"), "utf8")
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading.replaceAll("`", ""))
  const isHeading = (from: string) => headings.some((heading) => heading === from || heading.startsWith(`${from} `))
  // A number names one of the rules below a heading.
  expect(
    ids.filter((id) => !isHeading(SPEC[id]?.from.replace(/ \d$/, "") ?? "") && SPEC[id]?.from !== "choice"),
  ).toEqual([])
})

test("every choice has a reason", () => {
  expect(ids.filter((id) => SPEC[id]?.from === "choice" && SPEC[id].why === undefined)).toEqual([])
  const built = ids.filter((id) => SPEC[id]?.unbuilt === undefined).length
  process.stderr.write(`specification: ${built} of ${ids.length} sentences are shown by tests\n`)
})
