import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { substitute } from "../../../src/config/substitution.ts"
import { type RegistryEntry, readEntry } from "../../../src/features/registry/entry.ts"
import { argumentValues, deepSecrets, planInstall } from "../../../src/features/registry/install-plan.ts"

const entry = (server: object): RegistryEntry => {
  const found = readEntry({ server: { name: "a/b", version: "1", ...server } }, "r")
  if (found === undefined) throw new Error("no entry")
  return found
}
const packaged = (one: object): RegistryEntry =>
  entry({
    packages: [{ registryType: "npm", identifier: "p", version: "1.2.3", transport: { type: "stdio" }, ...one }],
  })
const plan = (from: RegistryEntry, values: Record<string, string> = {}) => {
  const found = planInstall(from, values)
  if ("reason" in found) throw new Error(found.reason)
  return found
}

describe("a package becomes the command of its runner", () => {
  test.each([
    [{}, ["npx", "-y", "p@1.2.3"]],
    [{ version: "" }, ["npx", "-y", "p"]],
    [{ version: "latest" }, ["npx", "-y", "p"]],
    [{ identifier: "@s/p" }, ["npx", "-y", "@s/p@1.2.3"]],
    [{ registryType: "pypi" }, ["uvx", "p==1.2.3"]],
    [{ registryType: "nuget" }, ["dnx", "p@1.2.3", "--yes", "--"]],
    [{ registryType: "oci", identifier: "ghcr.io/o/i" }, ["docker", "run", "-i", "--rm", "ghcr.io/o/i:1.2.3"]],
    [
      { registryBaseUrl: "https://npm.corp.example/" },
      ["npx", "-y", "--registry", "https://npm.corp.example/", "p@1.2.3"],
    ],
    [{ registryBaseUrl: "https://registry.npmjs.org" }, ["npx", "-y", "p@1.2.3"]],
    [{ registryType: "pypi", registryBaseUrl: "https://pypi.org" }, ["uvx", "p==1.2.3"]],
    [
      { registryType: "oci", identifier: "o/i", registryBaseUrl: "https://docker.io" },
      ["docker", "run", "-i", "--rm", "o/i:1.2.3"],
    ],
    [
      { registryType: "oci", identifier: "o/i", registryBaseUrl: "https://ghcr.io" },
      ["docker", "run", "-i", "--rm", "ghcr.io/o/i:1.2.3"],
    ],
    [
      { registryType: "oci", identifier: "ghcr.io/o/i", registryBaseUrl: "https://ghcr.io" },
      ["docker", "run", "-i", "--rm", "ghcr.io/o/i:1.2.3"],
    ],
    [{ registryType: "oci", identifier: "host:5000/i:9" }, ["docker", "run", "-i", "--rm", "host:5000/i:9"]],
    [
      { registryType: "oci", identifier: "i", environmentVariables: [{ name: "A", default: "1" }] },
      ["docker", "run", "-i", "--rm", "-e", "A", "i:1.2.3"],
    ],
    [
      {
        runtimeArguments: [{ type: "named", name: "--registry", value: "http://r" }],
        packageArguments: [
          { type: "positional", value: "run" },
          { type: "named", name: "--fast", value: "--fast" },
          { type: "named", name: "--port", default: "8{x}" },
          { type: "named", name: "--python 3.13", value: "--python 3.13" },
          { type: "named", name: "--host me", value: "you" },
          { type: "named", name: "--tools=a b", value: "--tools=a b" },
          { type: "positional", valueHint: "folder" },
        ],
      },
      [
        ...["npx", "-y", "--registry", "http://r", "p@1.2.3", "run", "--fast", "--port", "8{x}"],
        ...["--python", "3.13", "--host", "you", "--tools=a b"],
      ],
    ],
  ])("%j", (one, command) => {
    const { server } = plan(packaged(one))
    expect([server.command, ...(server.args as string[])]).toEqual(command)
  })

  test.each([
    [{ identifier: "--yes" }],
    [{ identifier: "p; rm -rf /" }],
    [{ version: "1 && x" }],
    [{ version: "-x" }],
    [{ registryType: "mcpb" }],
    [{ registryType: "pypi", registryBaseUrl: "https://pypi.corp.example" }],
    [{ registryBaseUrl: "--script-shell=x" }],
    [{ registryType: "__proto__" }],
    [{ transport: { type: "streamable-http", url: "http://x" } }],
  ])("%j is refused", (one) => {
    expect(planInstall(packaged(one), {})).toHaveProperty("reason")
  })

  test("the first package that svc can run is chosen, or else a remote", () => {
    const both = entry({
      packages: [
        { registryType: "mcpb", identifier: "x", version: "1", transport: { type: "stdio" } },
        { registryType: "pypi", identifier: "y", version: "1", transport: { type: "stdio" } },
      ],
      remotes: [{ type: "sse", url: "https://h/sse" }],
    })
    expect(plan(both)).toMatchObject({ type: "pypi", package: "y==1" })
    expect(planInstall(both, {}, "remote")).toMatchObject({
      server: { type: "sse", url: "https://h/sse" },
      package: undefined,
    })
    expect(planInstall(both, {}, "npm")).toHaveProperty("reason")
    // What this machine can run comes first; where it can run nothing, its owner is told what is missing when it starts.
    const none = () => false
    expect(planInstall(both, {}, undefined, none)).toMatchObject({ type: "remote" })
    expect(planInstall(both, {}, "pypi", none)).toMatchObject({ type: "pypi" })
    const two = ["pypi", "npm"].map((registryType) => ({
      registryType,
      identifier: registryType,
      version: "1",
      transport: { type: "stdio" },
    }))
    expect(planInstall(entry({ packages: two }), {}, undefined, (command) => command === "npx")).toMatchObject({
      server: { command: "npx" },
    })
    expect(planInstall(entry({ packages: two }), {}, undefined, none)).toMatchObject({ server: { command: "uvx" } })
    const old = { type: "sse", url: "https://h/sse" }
    expect(plan(entry({ remotes: [old, { type: "streamable-http", url: "https://h/mcp" }] })).server).toEqual({
      type: "streamableHttp",
      url: "https://h/mcp",
    })
    const served = packaged({ transport: { type: "streamable-http", url: "http://x" } })
    expect(planInstall(served, {})).toMatchObject({ reason: expect.stringContaining("npm over streamable-http") })
  })
})

describe("the values of a server", () => {
  const wanting = packaged({
    packageArguments: [{ type: "named", name: "--key", isRequired: true, isSecret: true }],
    environmentVariables: [
      { name: "NEEDED", description: "Say it", isRequired: true, isSecret: true, choices: ["a", "b"] },
      { name: "FIXED", value: "at {place}", variables: { place: { isRequired: true, default: "home" } } },
      { name: "DEFAULTED", default: "d" },
      { name: "OPEN" },
    ],
  })

  test("that are required and not given are missing; the others are optional", () => {
    const { missing, optional, server } = plan(wanting)
    expect(missing).toEqual([
      { name: "--key", secret: true },
      { name: "NEEDED", description: "Say it", secret: true, choices: ["a", "b"] },
    ])
    expect(optional.map(({ name }) => name)).toEqual(["DEFAULTED", "OPEN"])
    expect(server.env).toEqual({ FIXED: "at home", DEFAULTED: "d" })
  })

  test("that are none of the choices count as missing", () => {
    const choosing = packaged({
      environmentVariables: [
        { name: "MODE", isRequired: true, choices: ["fast", "slow"] },
        { name: "K", choices: ["a"] },
      ],
    })
    const names = (values: Record<string, string>) => plan(choosing, values).missing.map(({ name }) => name)
    expect(names({ MODE: "bogus" })).toEqual(["MODE"])
    expect(names({ MODE: "fast" })).toEqual([])
    expect(names({ MODE: "${MODE}", K: "b" })).toEqual(["K"])
  })

  test("fill their places", () => {
    const { missing, server, secret } = plan(wanting, { "--key": "k", NEEDED: "a", place: "work", OPEN: "o" })
    expect(missing).toEqual([])
    expect(server).toEqual({
      command: "npx",
      args: ["-y", "p@1.2.3", "--key", "k"],
      env: { NEEDED: "a", FIXED: "at work", DEFAULTED: "d", OPEN: "o" },
    })
    expect([...secret]).toEqual(["NEEDED"])
    expect([...deepSecrets(wanting)]).toEqual(["--key"])
  })

  test("are recovered from the arguments, unless those have been edited", () => {
    const from = packaged({
      runtimeArguments: [{ type: "named", name: "--quiet", value: "--quiet" }],
      packageArguments: [
        { type: "positional", value: "serve" },
        { type: "named", name: "--units", default: "m" },
        { type: "named", name: "--key", isRequired: true, isSecret: true },
        { type: "positional", valueHint: "folder" },
        { type: "named", name: "--host me", value: "--host me" },
      ],
    })
    const found = (args: readonly string[]) => argumentValues(from, ["-y", "--quiet", "p@1.2.3", ...args], {})
    for (const values of [
      { "--key": "${K}" },
      { "--key": "k", "--units": "km" },
      { "--key": "k", folder: "/tmp" },
      { "--key": "k", "--host me": "you", folder: "m" },
    ])
      expect(argumentValues(from, plan(from, values).server.args as string[], {})).toEqual(values as never)
    expect(found(["serve", "--units", "m", "--key", "k", "--more", "--host", "me"])).toEqual({
      "--key": "k",
      folder: "--more",
    })
    expect(found(["--key", "k"])).toBeUndefined()
    expect(found(["serve", "--units", "m", "--key", "k", "--host", "me", "--mine"])).toBeUndefined()
    expect(argumentValues(from, ["other"], {})).toBeUndefined()
  })

  test("of a remote fill its address and its headers", () => {
    const remote = entry({
      remotes: [
        {
          type: "streamable-http",
          url: "https://{tenant}.example.com/mcp",
          variables: { tenant: { isRequired: true } },
          headers: [{ name: "Authorization", value: "Bearer {token}", variables: { token: { isSecret: true } } }],
        },
      ],
    })
    expect(plan(remote).missing.map(({ name }) => name)).toEqual(["tenant", "token"])
    expect(plan(remote, { tenant: "me", token: "t" }).server).toEqual({
      type: "streamableHttp",
      url: "https://me.example.com/mcp",
      headers: { Authorization: "Bearer t" },
    })
  })
})

test("an undeclared placeholder stays, whatever its name", () => {
  expect(plan(packaged({ packageArguments: [{ type: "positional", value: "{constructor}{x}" }] }))).toMatchObject({
    server: { args: ["-y", "p@1.2.3", "{constructor}{x}"] },
    missing: [],
  })
})

test("no text of a registry is a reference", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("$", "{", "}", "A", ":", "-", " ") }), (text) => {
      const { server } = plan(
        packaged({
          packageArguments: [{ type: "positional", value: text }],
          environmentVariables: [{ name: "E", default: text }],
        }),
      )
      const texts = [
        ...((server.args as string[]) ?? []),
        ...Object.values((server.env as Record<string, string>) ?? {}),
      ]
      for (const one of texts) expect(substitute(one, () => "LEAKED").values).toEqual([])
    }),
  )
})

test("any answer of a registry is read, invalid parts dropped", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (value, packages) => {
      readEntry(value, "r")
      const found = readEntry({ name: "a/b", packages, remotes: packages }, "r")
      if (found !== undefined) planInstall(found, {})
    }),
  )
  const { description, packages } = entry({
    description: "a\u001b[31m\u202eb\u0000",
    packages: [{ registryType: "npm", identifier: "ok" }, { registryType: 5 }, "x"],
  })
  expect(description).toBe("a [31m b ")
  expect(packages.map(({ identifier }) => identifier)).toEqual(["ok"])
})
