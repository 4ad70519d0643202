/** Tests drafts of installations: from a registry's entry, a command, an address or a package. */
import { describe, expect, test } from "bun:test"
import type { Bundle } from "../../../src/features/registry/bundle.ts"
import { readManifest } from "../../../src/features/registry/bundle-manifest.ts"
import { type CustomServer, draftCustom, draftEntry } from "../../../src/features/tools/install-draft.ts"
import { entryOf, stage } from "./stage.ts"

const npm = (more: object = {}) => ({ registryType: "npm", identifier: "weather", version: "1.0.0", ...more })
const entry = (more: object = {}) =>
  entryOf({ name: "io.github.someone/weather", description: "d", version: "1.0.0", packages: [npm()], ...more })

describe("a server that no registry describes", () => {
  const draft = (custom: CustomServer) => draftCustom("x", custom)

  test("is drafted from a command, an address or a package", () => {
    expect(draft({ command: "run" }).server).toEqual({ command: "run" })
    expect(draft({ command: "run", args: ["a"], env: { A: "p$1", B: "${B}" } }).server).toEqual({
      command: "run",
      args: ["a"],
      env: { A: "p$$1", B: "${B}" },
    })
    expect(draft({ url: "https://x/mcp" })).toMatchObject({ server: { url: "https://x/mcp" }, source: "https://x/mcp" })
    const packages: readonly (readonly [spec: string, version: string | undefined, command: string])[] = [
      ["a", undefined, "npx -y a"],
      ["npm:a", "latest", "npx -y a"],
      ["@b/a", "1.2", "npx -y @b/a@1.2"],
      ["pypi:a", "1.2", "uvx a==1.2"],
      ["oci:ghcr.io/a/b", "1.2", "docker run -i --rm ghcr.io/a/b:1.2"],
    ]
    for (const [spec, version, command] of packages) {
      const { server } = draft({ package: spec, version, args: ["--more"] })
      expect([server.command, ...(server.args as string[])].join(" ")).toBe(`${command} --more`)
    }
  })

  test("docker passes the given variables to a container", () => {
    const { server } = draftCustom("x", { package: "oci:a/b", env: { MODE: "fast", LEVEL: "2" } })
    expect(server).toEqual({
      command: "docker",
      args: ["run", "-i", "--rm", "-e", "MODE", "-e", "LEVEL", "a/b"],
      env: { MODE: "fast", LEVEL: "2" },
    })
  })

  test("is refused unless exactly one of them is given, with all that it needs", () => {
    const one = "Give one of command, url and package"
    const refusals: readonly (readonly [CustomServer, string])[] = [
      [{}, one],
      [{ command: "a", url: "https://x" }, one],
      [{ url: "https://x", args: ["a"] }, "args and env do not apply to a url"],
      [{ url: "https://x", env: { A: "b" } }, "args and env do not apply to a url"],
      [{ package: "--evil" }, "must be the name of"],
      [{ package: "a", version: "1 --evil" }, "must be the name of"],
    ]
    for (const [custom, message] of refusals) expect(() => draft(custom)).toThrow(message)
  })
})

describe("a server of a registry's entry", () => {
  test("has the entry's short name, its command and its origin", async () => {
    await using at = stage()
    expect(draftEntry(at.context, entry(), {})).toMatchObject({
      name: "weather",
      server: {
        command: "npx",
        args: ["-y", "weather@1.0.0"],
        installedFrom: { registry: "test", name: "io.github.someone/weather", version: "1.0.0", type: "npm" },
      },
      source: "io.github.someone/weather 1.0.0 in the registry test",
      warnings: [],
    })
    expect(draftEntry(at.context, entry(), { name: "mine" }).name).toBe("mine")
    expect(draftEntry(at.context, entry({ name: "a/b_svc_c" }), {}).name).toBe("b-c")
  })

  test("reports missing values, and hides secrets in arguments", async () => {
    await using at = stage()
    const packageArguments = [{ type: "named", name: "--key", isSecret: true, isRequired: true }]
    const one = entry({ packages: [npm({ packageArguments })] })
    expect(draftEntry(at.context, one, {}).missing).toMatchObject([{ name: "--key", secret: true }])
    const given = draftEntry(at.context, one, { env: { "--key": "sekret" } })
    expect(given.secrets.hidden).toEqual({ "--key": "sekret" })
    expect(JSON.stringify(given.server)).not.toContain("sekret")
    const referred = draftEntry(at.context, one, { env: { "--key": "${KEY}" } })
    expect(referred).toMatchObject({
      secrets: { hidden: {} },
      server: { args: ["-y", "weather@1.0.0", "--key", "${KEY}"] },
    })
  })

  test("passes values that the entry does not declare to a command, not to a remote, and warns", async () => {
    await using at = stage()
    const env = { EXTRA: "1" }
    const warnings = ["its registry entry does not declare EXTRA"]
    expect(draftEntry(at.context, entry(), { env })).toMatchObject({ server: { env }, warnings })
    const remote = entry({ packages: [], remotes: [{ type: "streamable-http", url: "https://x" }] })
    const drafted = draftEntry(at.context, remote, { env })
    expect([drafted.server.env, drafted.warnings]).toEqual([undefined, warnings])
  })

  test("warns of a status, and is refused if svc cannot run it", async () => {
    await using at = stage()
    const old = { ...entry(), status: "deprecated" }
    expect(draftEntry(at.context, old, {})).toMatchObject({
      source: expect.stringContaining("test (where it is deprecated)"),
      warnings: ["io.github.someone/weather is deprecated in its registry"],
    })
    expect(() => draftEntry(at.context, entry({ packages: [] }), {})).toThrow("cannot be installed")
  })

  test("of a bundle keeps the given values with its origin, secrets as placeholders", async () => {
    await using at = stage()
    const manifest = readManifest(
      JSON.stringify({
        manifest_version: "0.3",
        name: "sun",
        version: "1.0.0",
        server: {
          type: "node",
          entry_point: "i.js",
          mcp_config: { command: "node", args: ["${__dirname}/i.js"], env: { API_KEY: "${user_config.key}" } },
        },
        user_config: { key: { type: "string", title: "Key", sensitive: true, required: true } },
      }),
    )
    const from = npm({ registryType: "mcpb" })
    const one = entry({ packages: [from] })
    const bundle = { from: one.packages[0], hash: "ab".repeat(32), manifest, files: [] } as unknown as Bundle
    const drafted = draftEntry(at.context, one, { env: { key: "sekret" }, bundle })
    expect(drafted.secrets.hidden).toEqual({ key: "sekret" })
    expect(drafted.server).toMatchObject({ command: "node", installedFrom: { values: { key: "\0key\0" } } })
    expect(drafted.source).toContain(`the bundle weather (sha256 ${bundle.hash})`)
    expect(drafted.warnings).toEqual([])
  })
})
