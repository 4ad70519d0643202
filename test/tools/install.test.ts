/** Tests that what a terminal showed is what an installation or an update runs, whatever a registry answers in between. */
import { describe, expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { mcpInstall } from "../../src/tools/install.ts"
import { invokeTool } from "../../src/tools/tool.ts"
import { mcpUpdate } from "../../src/tools/update.ts"
import { stage } from "./stage.ts"

const entry = (version: string, identifier: string) => ({
  name: "a/nice",
  description: "d",
  version,
  packages: [
    {
      registryType: "npm",
      identifier,
      version,
      transport: { type: "stdio" },
      environmentVariables: [{ name: "HOOK", isSecret: true }],
    },
  ],
})
const INSTALLED = {
  command: "npx",
  args: ["-y", "good@1.0.0"],
  installedFrom: { registry: "test", name: "a/nice", version: "1.0.0", type: "npm", package: "good@1.0.0" },
}

describe("a plan that a terminal has shown", () => {
  const cases = [
    { tool: mcpInstall, args: { serverName: "a/nice", env: { HOOK: "h" } }, servers: {} },
    { tool: mcpUpdate, args: { serverName: "nice", env: { HOOK: "h" } }, servers: { nice: INSTALLED } },
  ]

  test("runs if it is still the same [tools:agreed]", async () => {
    for (const { tool, args, servers } of cases) {
      await using at = stage({ config: { mcpServers: servers }, entries: [entry("2.0.0", "good")] })
      const terminal = { ...at.context, terminal: { agreed: undefined } }
      const { data } = await tool.run({ ...args, dryRun: true }, terminal)
      expect(data.command).toBe("npx -y good@2.0.0 with HOOK=h")
      await tool.run(args, { ...at.context, terminal: { agreed: String(data.digest) } })
      expect(at.servers().nice).toMatchObject({ args: ["-y", "good@2.0.0"] })
    }
  })

  test("does not run if the registry, a value or the defaults are others now [tools:agreed]", async () => {
    for (const { tool, args, servers } of cases) {
      const config = { mcpServers: servers }
      const digestOf = async (options: object, more: object = {}) => {
        await using at = stage({ config, entries: [entry("2.0.0", "good")], ...options })
        const terminal = { ...at.context, terminal: { agreed: undefined } }
        return String((await tool.run({ ...args, ...more, dryRun: true }, terminal)).data.digest)
      }
      const agreed = await digestOf({})
      expect(await digestOf({})).toBe(agreed)
      for (const [options, more] of [
        [{ entries: [entry("2.0.0", "evil")] }],
        [{ entries: [entry("2.0.1", "good")] }],
        [{ config: { ...config, serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } } }],
        [{}, { env: { HOOK: "other" } }],
      ] as const) {
        await using at = stage({ config, entries: [entry("2.0.0", "good")], ...options })
        const before = at.documents()
        const run = tool.run({ ...args, ...more }, { ...at.context, terminal: { agreed } })
        await expect(run).rejects.toMatchObject({
          fault: "conflict",
          message: expect.stringContaining("not what was shown"),
        })
        expect([at.documents(), at.agent.all()]).toEqual([before, []])
      }
    }
  })

  test("has no digest for a model: short secrets can be guessed from it", async () => {
    await using at = stage({ entries: [entry("2.0.0", "good")] })
    expect((await at.run(mcpInstall, { serverName: "a/nice", dryRun: true })).digest).toBeUndefined()
  })

  test("is shown whole, even if a secret of another server stands in it [tools:shown]", async () => {
    await using at = stage()
    const context = { ...at.context, maskCredentials: (text: string) => text.replaceAll("curl evil", "•••") }
    const args = { serverName: "x", command: "sh", args: ["-c", "curl evil"], dryRun: true }
    const commandIn = async (terminal: typeof at.context.terminal) =>
      (await invokeTool(mcpInstall, args, { ...context, terminal }, () => undefined)).structuredContent.command
    expect(await commandIn({ agreed: undefined })).toBe('sh -c "curl evil"')
    expect(await commandIn(undefined)).toBe('sh -c "•••"')
  })
})

test("an installation whose defaults change while the question is put is not made [tools:shown]", async () => {
  const changed = JSON.stringify({ serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } })
  await using at = stage({ answer: true, onask: () => writeFileSync(at.paths.file, changed) })
  const install = at.run(mcpInstall, { serverName: "x", command: "x" })
  await expect(install).rejects.toMatchObject({ fault: "conflict" })
  expect(at.documents().config).toBe(changed)
})
