import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Glob } from "bun"
import { SPEC } from "./spec.ts"

/** The ids in brackets in the titles of tests. */
const cited = new Set<string>()
for (const file of new Glob("**/*.test.ts").scanSync(import.meta.dir))
  for (const [, title = ""] of readFileSync(join(import.meta.dir, file), "utf8").matchAll(
    /^\s*(?:test|describe)[\w.]*\(\s*(?:\[[\s\S]*?\]\s*(?:as const\s*)?\)\()?\s*"((?:[^"\\]|\\.)*)"/gm,
  ))
    for (const [, id = ""] of title.matchAll(/\[([a-z0-9-]+(?::[a-z0-9-]+)+)\]/gi)) cited.add(id)
const ids = Object.keys(SPEC)

test("every sentence is shown by a test or says why not", () => {
  expect(ids.filter((id) => !cited.has(id) && SPEC[id]?.unbuilt === undefined)).toEqual([])
})

test("nothing is called unbuilt that a test shows", () => {
  expect(ids.filter((id) => cited.has(id) && SPEC[id]?.unbuilt !== undefined)).toEqual([])
})

test("every cited sentence exists", () => {
  expect([...cited].filter((id) => SPEC[id] === undefined)).toEqual([])
})

test("every choice says why", () => {
  expect(ids.filter((id) => SPEC[id]?.from === "choice" && SPEC[id].why === undefined)).toEqual([])
  const built = ids.filter((id) => SPEC[id]?.unbuilt === undefined).length
  process.stderr.write(`specification: ${built} of ${ids.length} sentences are shown by tests\n`)
})
