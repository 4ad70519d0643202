import { expect, test } from "bun:test"
import { readSettings } from "../../src/app/settings.ts"

const settings = (args: Record<string, unknown>, env: Record<string, string> = {}) => readSettings(args, env, "linux")

test("svc listens on loopback by default, and beyond it only with authentication or --allow-unauthenticated [inbound:listen]", () => {
  expect(settings({}).address).toEqual({ hostname: "127.0.0.1", port: 3050 })
  for (const host of ["localhost.", "svc.localhost", "127.0.0.2", "[::1]", "::ffff:127.0.0.1"])
    expect(settings({ host }).address).toMatchObject({ hostname: host })
  for (const host of ["0.0.0.0", "::", "192.168.0.7", "svc.example.com"]) {
    expect(() => settings({ host })).toThrow("--allow-unauthenticated")
    expect(() => settings({}, { SVC_HOST: host })).toThrow("--allow-unauthenticated")
    expect(settings({ host, auth: true }).address).toMatchObject({ hostname: host })
    expect(settings({ host, "allow-unauthenticated": true }).address).toMatchObject({ hostname: host })
  }
})
