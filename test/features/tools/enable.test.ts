/** Tests enabling, disabling and uninstalling a server: the question to a person, and that exactly what was shown happens. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { mcpDisable, mcpEnable } from "../../../src/features/tools/enable.ts"
import { mcpUninstall } from "../../../src/features/tools/uninstall.ts"
import { stage } from "./stage.ts"

const OFF = { command: "x", args: ["v"], disabled: true, tags: ["t"], disabledTools: ["two"] }
const CONFIG = { mcpServers: { off: OFF, on: { command: "y" } } }

test("enabling needs the same consent as an installation [tools:confirm]", async () => {
  for (const preapproved of [
    { installs: false, edits: true },
    { installs: true, edits: false },
  ]) {
    await using at = stage({ config: CONFIG, preapproved })
    await expect(at.run(mcpEnable, { serverName: "off" })).rejects.toMatchObject({ fault: "confirmation_required" })
    expect(at.servers().off).toEqual(OFF)
  }
  await using at = stage({ config: CONFIG, preapproved: { installs: true, edits: true } })
  expect(await at.run(mcpEnable, { serverName: "off" })).toMatchObject({ enabled: true, changed: true })
})

test("the question shows every setting of a server that is enabled [tools:shown]", async () => {
  await using at = stage({ config: { ...CONFIG, serverDefaults: { env: { A: "b" } } }, answer: true })
  await at.run(mcpEnable, { serverName: "off" })
  expect(at.asked).toEqual([
    'Enable the MCP server off: let svc run this and offer its tools to every client?\n\nx v\nserverDefaults adds: A=b\ntags: ["t"]\ndisabledTools: ["two"]',
  ])
})

test("a server that changes while the question is open is left unchanged [tools:shown]", async () => {
  for (const [tool, serverName] of [
    [mcpEnable, "off"],
    [mcpDisable, "on"],
    [mcpUninstall, "on"],
  ] as const)
    for (const changed of [
      { mcpServers: { off: { ...OFF, args: ["not shown"] }, on: { command: "z" } } },
      { ...CONFIG, serverDefaults: { env: { NODE_OPTIONS: "--require=/x" } } },
    ]) {
      const onask = () => writeFileSync(at.paths.file, JSON.stringify(changed))
      await using at = stage({ config: CONFIG, answer: true, onask })
      await expect(at.run(tool, { serverName })).rejects.toMatchObject({ fault: "conflict" })
      expect(JSON.parse(at.documents().config ?? "")).toEqual(changed)
    }
})
