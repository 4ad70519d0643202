import { expect, test } from "bun:test"
import { readServeOptions } from "../../src/app/serve-options.ts"

const optionsOf = (args: Record<string, unknown>, env: Record<string, string> = {}) =>
  readServeOptions(args, env, "linux")

test("svc listens on loopback by default, and beyond it only with authentication or --allow-unauthenticated [inbound:listen]", () => {
  expect(optionsOf({}).address).toEqual({ hostname: "127.0.0.1", port: 3050 })
  for (const host of ["localhost.", "svc.localhost", "127.0.0.2", "[::1]", "::ffff:127.0.0.1"])
    expect(optionsOf({ host }).address).toMatchObject({ hostname: host })
  for (const host of ["0.0.0.0", "::", "192.168.0.7", "svc.example.com"]) {
    expect(() => optionsOf({ host })).toThrow("--allow-unauthenticated")
    expect(() => optionsOf({}, { SVC_HOST: host })).toThrow("--allow-unauthenticated")
    expect(optionsOf({ host, auth: true }).address).toMatchObject({ hostname: host })
    expect(optionsOf({ host, "allow-unauthenticated": true }).address).toMatchObject({ hostname: host })
  }
})

test("a budget of instructions that says nothing is refused [instructions:budget]", () => {
  expect(() => optionsOf({ "instructions-budget": "50" })).toThrow(
    "--instructions-budget must be 0 (no limit) or at least 256, not 50",
  )
  expect(optionsOf({ "instructions-budget": "256" }).instructionsBudget).toBe(256)
  expect(optionsOf({ "instructions-budget": "0" }).instructionsBudget).toBe(Number.POSITIVE_INFINITY)
})
