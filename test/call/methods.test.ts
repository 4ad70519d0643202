import { expect, test } from "bun:test"
import { methodOf } from "../../src/call/methods.ts"

test("a call is of a tool, a prompt or a resource, and names it", () => {
  for (const [method, names] of [
    ["tools/call", "name"],
    ["prompts/get", "name"],
    ["resources/read", "uri"],
  ])
    expect(methodOf(method as string)).toMatchObject({ isCall: true, names })
  for (const method of ["tools/list", "tasks/get", "skills/get", "vendor/method"])
    expect([method, methodOf(method).isCall]).toEqual([method, undefined])
})

test("svc knows nothing of a method that it relays unchanged, whatever its name", () => {
  for (const method of ["vendor/method", "constructor", "__proto__", ""]) expect(methodOf(method)).toEqual({})
})
