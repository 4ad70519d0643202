import { expect, test } from "bun:test"
import type { Client } from "../../src/call/client.ts"
import { adaptParams } from "../../src/call/era-params.ts"

test("a call that asks for a task of 2025 is an ordinary call to a server of the other era", () => {
  const params = { name: "work", arguments: {}, task: { ttl: 1 } }
  const client = (era: Client["era"]) => ({ era, info: {}, capabilities: {}, logLevel: undefined }) as unknown as Client
  expect(adaptParams(params, client("legacy"), "legacy")).toBe(params)
  expect(adaptParams(params, client("legacy"), "modern")).toMatchObject({ name: "work", arguments: {} })
  expect(adaptParams(params, client("legacy"), "modern")).not.toHaveProperty("task")
  expect(adaptParams(params, client("modern"), "legacy")).toEqual({ name: "work", arguments: {} })
})
