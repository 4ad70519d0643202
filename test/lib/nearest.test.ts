import { expect, test } from "bun:test"
import { nearest } from "../../src/lib/nearest.ts"

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
    ["abcdef", "abdcfe", true],
    ["ca", "abc", false],
  ]
  for (const [word, known, found] of cases) {
    expect([word, nearest(word, [known])]).toEqual([word, found ? known : undefined])
    expect([known, nearest(known, [word])]).toEqual([known, found ? word : undefined])
  }
})
