/** A command and an internal tool judge the same edit alike, and write the same file. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { connect1 } from "./clients.ts"
import { fixture, freshEnv, freshFolder, readIfThere, runSvc, startSvc } from "./harness.ts"

/** The patches, and whether each may be written. */
const EDITS: readonly (readonly [what: string, patch: object, isWritten: boolean])[] = [
  ["a setting", { requestTimeout: 9000 }, true],
  ["an unknown key", { comand: "x" }, true],
  ["a wrong type", { requestTimeout: "long" }, false],
  ["an unknown member of oauth", { oauth: { clientID: "x" } }, false],
  ["a reference that is not set", { env: { A: "${NOWHERE}" } }, false],
  ["a variable list with one that is not set", { env: ["NOWHERE"] }, false],
  ["a disabled server", { disabled: true }, true],
  ["a disabled server with a reference that is not set", { disabled: true, env: { A: "${NOWHERE}" } }, true],
  ["hidden tools that are none", { disabledTools: "echo" }, false],
]

test("svc mcp edit and mcp_edit write and refuse the same edits [config:edit:judgement]", async () => {
  const server = { command: "bun", args: [fixture("echo.ts")] }
  const config = { mcpServers: Object.fromEntries(EDITS.map((_, at) => [`s${at}`, server])) }
  const flags = [
    "--internal-tools",
    "all",
    "--confirm-installs",
    "off",
    "--confirm-edits",
    "off",
    "--startup-wait",
    "20s",
  ]
  await using svc = await startSvc({ config, flags })
  await using client = await connect1(svc)
  const folder = freshFolder()
  writeFileSync(join(folder, "mcp.json"), readIfThere(join(svc.folder, "mcp.json")) ?? "")
  const serverIn = (at: string, name: string) => JSON.parse(readIfThere(join(at, "mcp.json")) ?? "").mcpServers[name]
  for (const [at, [what, patch, isWritten]] of EDITS.entries()) {
    const name = `s${at}`
    await client.call("mcp_edit", { serverName: name, patch })
    await runSvc(["mcp", "edit", name, JSON.stringify(patch), "--config-dir", folder], freshEnv(folder))
    const [byTool, byCommand] = [svc.folder, folder].map((each) => serverIn(each, name))
    expect([what, byCommand]).toEqual([what, byTool])
    expect([what, !Bun.deepEquals(byTool, server)]).toEqual([what, isWritten])
  }
}, 60_000)
