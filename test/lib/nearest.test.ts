import { expect, test } from "bun:test"
import { nearest, unknownNameError } from "../../src/lib/nearest.ts"

test("a misspelled word finds the known one, and an unrelated word finds none", () => {
  const known = ["serve", "status", "mcp", "health"]
  expect(nearest("sreve", known)).toBe("serve")
  expect(nearest("Status", known)).toBe("status")
  expect(nearest("helth", known)).toBe("health")
  expect(nearest("banana", known)).toBeUndefined()
  expect(nearest("", known)).toBeUndefined()
})

test("a short word finds only a word with one edit, of which a swap of two letters is one", () => {
  const cases: readonly (readonly [word: string, known: string, found: boolean])[] = [
    ["nope", "one", false],
    ["ehco", "echo", true],
    ["heer", "here", true],
    ["tag", "tags", true],
    ["ehcoo", "echo", false],
    ["stat", "status", true],
    ["dog", "cat", false],
    ["c", "a", false],
    ["c", "C", true],
    ["abcdef", "abdcfe", true],
    ["ca", "abc", false],
  ]
  for (const [word, known, found] of cases) {
    expect([word, nearest(word, [known])]).toEqual([word, found ? known : undefined])
    expect([known, nearest(known, [word])]).toEqual([known, found ? word : undefined])
  }
})

test("an unknown name is answered with the nearest, the known names, or the command that lists them [cli:names]", () => {
  const many = Array.from({ length: 9 }, (_, at) => `server-${at}`)
  const cases: readonly (readonly [kind: string, known: readonly string[], end: string])[] = [
    ["server", [], "; there are none yet"],
    ["server", ["github"], "; the only one is github"],
    ["server", ["memory", "github"], "; the names are memory and github"],
    ["server", ["memory", "banan", "github"], "; did you mean banan?"],
    ["server", many.slice(0, 8), `; the names are ${many.slice(0, 7).join(", ")} and server-7`],
    ["server", many, "; `svc mcp list` lists the 9 names"],
    ["entry", many, `; the names are ${many.slice(0, 8).join(", ")} and 1 more`],
    ["server", ["x".repeat(100)], `; the only one is ${"x".repeat(60)}`],
  ]
  for (const [kind, known, end] of cases)
    expect(unknownNameError(kind, "banana", known).message).toBe(`no ${kind} is named banana${end}`)
})
