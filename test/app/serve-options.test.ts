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

test("a budget that is too small for any instructions is refused [instructions:budget]", () => {
  expect(() => optionsOf({ "instructions-budget": "50" })).toThrow(
    "--instructions-budget must be 0 (no limit) or at least 256, not 50",
  )
  expect(optionsOf({ "instructions-budget": "256" }).instructionsBudget).toBe(256)
  expect(optionsOf({ "instructions-budget": "0" }).instructionsBudget).toBe(Number.POSITIVE_INFINITY)
})

test("--cluster takes one Redis, its prefix, and a password by reference [cluster:option]", () => {
  const env = { PASSWORD: "p@ss/word" }
  expect(optionsOf({}).cluster).toBeUndefined()
  expect(optionsOf({ cluster: "redis://cache" }).cluster).toEqual({
    url: "redis://cache:6379",
    prefix: "svc:",
    address: undefined,
  })
  expect(optionsOf({ cluster: "rediss://me:${PASSWORD}@cache:7000/2?prefix=team:" }, env).cluster).toEqual({
    url: "rediss://me:p%40ss%2Fword@cache:7000/2",
    prefix: "team:",
    address: undefined,
  })
  expect(optionsOf({}, { SVC_CLUSTER: "redis://:secret@cache" }).cluster?.url).toBe("redis://:secret@cache:6379")
  expect(() => optionsOf({ cluster: "redis://:secret@cache" })).toThrow("${NAME}")
  expect(() => optionsOf({ cluster: "redis://:${MISSING}@cache" })).toThrow("MISSING, which is not set")
  for (const cluster of ["cache:6379", "http://cache", "redis+sentinel://a", "redis://", "redis://a:1,b:2"])
    expect(() => optionsOf({ cluster })).toThrow("--cluster must be the URL of one Redis or Valkey")
  expect(() => optionsOf({ "cluster-address": "http://10.0.0.5:3050" })).toThrow("--cluster-address needs --cluster,")
  expect(() => optionsOf({}, { SVC_CLUSTER_ADDRESS: "http://10.0.0.5:3050" })).toThrow("SVC_CLUSTER_ADDRESS needs")
  expect(() => optionsOf({ cluster: "redis://cache", transport: "stdio" })).toThrow("--cluster needs")
  expect(() => optionsOf({ cluster: "redis://cache", listen: "unix:/tmp/x" })).toThrow("--cluster needs")
  expect(() => optionsOf({ cluster: "redis://cache", "cluster-address": "10.0.0.5" })).toThrow("--cluster-address")
  const tls = { cluster: "rediss://cache", "tls-cert": "c", "tls-key": "k" }
  expect(() => optionsOf(tls)).toThrow("--cluster-address")
  expect(optionsOf({ ...tls, "cluster-address": "https://a.example:3050/" }).cluster?.address).toBe(
    "https://a.example:3050",
  )
})

test("an option is a flag or a variable, and the table says which values it takes", () => {
  expect(optionsOf({ "auth-issuer": "https://id.example/" }).authIssuer).toBe("https://id.example/")
  expect(optionsOf({ "external-url": "https://svc.example/" })).toMatchObject({
    externalUrl: "https://svc.example",
    allowedHosts: ["svc.example"],
  })
  expect(optionsOf({}, { SVC_STARTUP_WAIT: "2m", SVC_MAX_BODY: "1KiB", SVC_ADMIN: "off" })).toMatchObject({
    startupWait: 120_000,
    maxBody: 1024,
    admin: false,
  })
  expect(optionsOf({ "receive-timeout": "5m" }).receiveTimeout).toBe(240_000)
  expect(optionsOf({})).toMatchObject({
    startupWait: 5000,
    drainDelay: 3000,
    shutdownGrace: 10_000,
    maxBody: 4 * 1024 * 1024,
    maxResult: 64 * 1024 * 1024,
    resultTtl: 3_600_000,
    sessionTtl: 86_400_000,
    pagination: Number.POSITIVE_INFINITY,
    maxToolName: undefined,
    sessionRateLimit: undefined,
    authScopes: true,
    confirmInstalls: true,
    tools: "all",
    internalTools: [],
    admin: true,
  })
  for (const [args, message] of [
    [{ "external-url": "svc.example" }, "--external-url must be an http or https URL, such as https://svc.example.com"],
    [{ "max-tool-name": "31" }, "--max-tool-name must be 0 (no limit) or at least 32, not 31"],
    [{ "log-level": "loud" }, "--log-level must be one of debug, info, warn, error, not loud"],
    [{ "trust-proxy": "me" }, "--trust-proxy must be off, loopback, or comma-separated addresses and CIDRs, not me"],
    [{ "internal-tools": "al" }, "--internal-tools must be one or more of all, safe"],
    [{ filter: "" }, "--filter needs a value: it is empty"],
  ] as const)
    expect(() => optionsOf(args)).toThrow(message)
})
