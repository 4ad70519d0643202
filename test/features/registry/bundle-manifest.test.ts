import { describe, expect, test } from "bun:test"
import {
  isProgram,
  isSensitive,
  type Machine,
  planBundle,
  readManifest,
} from "../../../src/features/registry/bundle-manifest.ts"
import type { Package } from "../../../src/features/registry/entry.ts"
import type { InputValues, Installable } from "../../../src/features/registry/install-plan.ts"
import { MANIFEST } from "../../fixtures/bundle.ts"

const FROM: Package = {
  registryType: "mcpb",
  identifier: "https://x/y.mcpb",
  version: "1",
  transport: { type: "stdio", headers: [] },
  runtimeArguments: [],
  packageArguments: [],
  environmentVariables: [],
}
const MACHINE: Machine = {
  platform: "linux",
  home: "/home/me",
  has: (name) => ["node", "python3", "uv"].includes(name),
}

const planned = (
  manifest: object,
  values: InputValues = {},
  more: { from?: Partial<Package>; machine?: Partial<Machine> } = {},
) =>
  planBundle(
    {
      manifest: readManifest(JSON.stringify(manifest)),
      from: { ...FROM, ...more.from },
      root: "/b/x$1",
      machine: { ...MACHINE, ...more.machine },
    },
    values,
  )
const plan = (...args: Parameters<typeof planned>): Installable => {
  const found = planned(...args)
  if ("reason" in found) throw new Error(found.reason)
  return found
}
const server = (mcp_config: object, more: object = {}) => ({
  manifest_version: "0.2",
  server: { type: "node", entry_point: "i.js", mcp_config },
  ...more,
})

test("the command is the manifest's, with the folder and the given values filled in", () => {
  expect(plan(MANIFEST, { api_key: "${KEY}", folders: '["/x","/y z"]' })).toMatchObject({
    server: {
      command: "node",
      args: ["/b/x$$1/server/index.js", "1", "/x", "/y z"],
      cwd: "/b/x$$1",
      env: { API_KEY: "${KEY}" },
    },
    missing: [],
    optional: [{ name: "mode", description: "Mode; How" }],
    package: "https://x/y.mcpb",
    type: "mcpb",
  })
})

test("options are secret if the manifest or their name says so", () => {
  const options = {
    pin_number: { type: "number" },
    city: { type: "string" },
    home: { type: "string", sensitive: true },
    my_token: { type: "string" },
  }
  const manifest = readManifest(JSON.stringify(server({ command: "node" }, { user_config: options })))
  const names = [...Object.keys(options), "OTHER", "OTHER_TOKEN"]
  expect(names.filter((name) => isSensitive(manifest, name))).toEqual(["home", "my_token", "OTHER_TOKEN"])
})

test("an empty list is no value", () => {
  const wanting = (required: boolean) =>
    server(
      { command: "node", args: ["x", "${user_config.d}"] },
      { user_config: { d: { type: "directory", multiple: true, required, default: [] } } },
    )
  expect(plan(wanting(true)).missing).toMatchObject([{ name: "d" }])
  expect(plan(wanting(true), { d: "[]" }).missing).toHaveLength(1)
  expect(plan(wanting(false)).server.args).toEqual(["x"])
  expect(plan(wanting(false), { d: "[]" }).server.args).toEqual(["x"])
  expect(plan(wanting(true), { d: "/one" }).server.args).toEqual(["x", "/one"])
})

test("a required value that is not given is missing, one with a default is not", () => {
  const { missing, optional, server } = plan(MANIFEST, { api_key: "" })
  expect(missing).toEqual([{ name: "api_key", secret: true, description: "API key; Your key" }])
  expect(optional.map(({ name }) => name)).toEqual(["folders", "mode"])
  expect(server.args).toEqual(["/b/x$$1/server/index.js", "1", "/home/me/a"])
})

test("a value must be a number or a boolean if its option is", () => {
  const wanting = server(
    { command: "node", args: ["${user_config.n}", "--on=${user_config.on}"] },
    { user_config: { n: { type: "number", min: 1, max: 9, default: 3 }, on: { type: "boolean", default: false } } },
  )
  expect(plan(wanting).server.args).toEqual(["3", "--on=false"])
  expect(plan(wanting, { n: "9", on: "true" }).server.args).toEqual(["9", "--on=true"])
  for (const values of [{ n: "10" }, { n: "x" }, { on: "yes" }]) expect(plan(wanting, values).missing).toHaveLength(1)
  expect(plan(wanting, { n: "0" }).missing[0]?.description).toBe("a number, at least 1, at most 9")
})

test("known placeholders are filled, unknown ones stay and are no references", () => {
  const config = {
    command: "node",
    args: [
      "${HOME}${/}x",
      "${DESKTOP}|${DOCUMENTS}|${DOWNLOADS}",
      "a${pathSeparator}b",
      "${SECRET} $HOME ${user_config.no}",
    ],
    env: { "A B": "${__dirname}/lib" },
  }
  expect(plan(server(config)).server).toMatchObject({
    args: [
      "/home/me/x",
      "/home/me/Desktop|/home/me/Documents|/home/me/Downloads",
      "a/b",
      "$${SECRET} $$HOME $${user_config.no}",
    ],
    env: { "A B": "/b/x$$1/lib" },
  })
})

test("an argument or a variable without its value is dropped", () => {
  const config = {
    command: "node",
    args: ["x", "${user_config.o}", "--o=${user_config.o}"],
    env: { O: "<${user_config.o}>" },
  }
  const wanting = server(config, { user_config: { o: { type: "string" } } })
  expect(plan(wanting).server).toEqual({ command: "node", args: ["x"], cwd: "/b/x$$1" })
  expect(plan(wanting, { O: "own" }).server.env).toEqual({ O: "own" })
})

test("a platform may have its own command, and other platforms are rejected", () => {
  const config = {
    command: "server/run",
    args: ["a"],
    env: { A: "1" },
    platform_overrides: { win32: { command: "server\\run.exe" }, linux: { args: ["b"] }, darwin: { env: { B: "2" } } },
  }
  const on = (platform: string) => plan(server(config), {}, { machine: { platform } }).server
  expect(on("linux")).toMatchObject({ command: "/b/x$$1/server/run", args: ["b"], env: { A: "1" } })
  expect(on("darwin")).toMatchObject({ command: "/b/x$$1/server/run", args: ["a"], env: { B: "2" } })
  expect(on("win32")).toMatchObject({ command: "/b/x$$1\\server\\run.exe" })
  expect(planned({ ...server(config), compatibility: { platforms: ["darwin", "win32"] } })).toEqual({
    reason: "its bundle runs on darwin, win32, not on linux",
  })
})

describe("a program", () => {
  test("of the bundle is a path inside it", () => {
    const binary = (command: string) => ({
      manifest_version: "0.1",
      server: { type: "binary", entry_point: "tool", mcp_config: { command } },
    })
    for (const command of ["tool", "./tool", "${__dirname}/tool"])
      expect(plan(binary(command)).server.command).toBe("/b/x$$1/tool")
    expect(plan(binary("tool"), {}, { machine: { platform: "win32" } }).server.command).toBe("/b/x$$1\\tool.exe")
    const manifest = readManifest(JSON.stringify(binary("${__dirname}/bin/run")))
    expect(["tool", "bin/run", "run", "ool", "x/tool"].map((path) => isProgram(manifest, path))).toEqual([
      ...[true, true, true, false, false],
    ])
  })

  test("of the machine must exist", () => {
    const none = { machine: { has: () => false } }
    expect(planned(MANIFEST, {}, none)).toEqual({
      reason: "its bundle needs node, which is not in the PATH of svc: install Node.js",
    })
    expect(plan(server({ command: "python" })).server.command).toBe("python3")
    const uv = { dxt_version: "0.4", server: { type: "uv", entry_point: "src/s.py" } }
    expect(plan(uv).server).toMatchObject({ command: "uv", args: ["run", "--directory", "/b/x$$1", "src/s.py"] })
    expect(planned({ ...uv, server: { type: "node", entry_point: "x.js" } })).toHaveProperty("reason")
  })
})

test("inputs of the registry's entry are added", () => {
  const from = {
    environmentVariables: [
      { name: "API_KEY", isRequired: true },
      { name: "MORE", isRequired: true, isSecret: true },
    ],
    packageArguments: [{ type: "named" as const, name: "--fast", value: "1" }],
  }
  const { missing, server } = plan(MANIFEST, { api_key: "k" }, { from })
  expect(missing).toEqual([{ name: "MORE", secret: true }])
  expect((server.args as string[]).slice(-2)).toEqual(["--fast", "1"])
})

test.each([
  ["{", "is not JSON"],
  ["[]", "invalid at the top level"],
  ['{"manifest_version":"0.3"}', "invalid at server"],
  ['{"manifest_version":"1.0","server":{"type":"node"}}', "must be one of 0.1, 0.2, 0.3, 0.4"],
  ['{"manifest_version":"0.3","server":{"type":"ruby"}}', "invalid at server.type"],
  ['{"manifest_version":"0.3","server":{"type":"uv"},"user_config":{"a\\u0000b":{}}}', "invalid at user_config"],
])("%s is no manifest", (text, message) => {
  expect(() => readManifest(text)).toThrow(message)
})

test("no text of a manifest can pass for the placeholder of a secret", () => {
  expect(plan(server({ command: "node", args: ["\0KEY\0"] })).server.args).toEqual([" KEY "])
})
