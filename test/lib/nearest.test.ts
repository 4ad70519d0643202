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
