/** `svc doctor` beside a running svc. */
import { expect, test } from "bun:test"
import { JSON_SHAPES } from "../json-shapes.ts"
import { fixture, freePort, startSvc, svcIn } from "./harness.ts"

const echo = { command: process.execPath, args: [fixture("echo.ts")] }

test("faults of the servers of a running svc are found [doctor:findings]", async () => {
  const url = `http://127.0.0.1:${await freePort()}/mcp`
  const servers = { good: echo, bad: { command: "false" }, typo: { command: "npxx" }, web: { url } }
  await using svc = await startSvc({ config: { mcpServers: servers } })
  await svc.said("bad: could not be started")
  await svc.said("typo: could not be started")
  await svc.said("good: connected")
  await svc.said("web: nothing listens at")
  const { code, stdout } = await svcIn(svc.folder)("doctor", "--json")
  const findings = JSON_SHAPES.finding.array().parse(JSON.parse(stdout).findings)
  const about = findings.filter(({ check }) => check !== "permissions")
  expect(code).toBe(2)
  expect(about).toMatchObject([
    { check: "commands", severity: "error", subject: "typo", what: expect.stringContaining("not found: npxx") },
    { check: "servers", severity: "error", subject: "bad", what: "bad has failed: exited with code 1" },
    {
      check: "servers",
      severity: "error",
      subject: "web",
      fix: expect.stringContaining("`svc mcp edit web --url URL`"),
    },
  ])
})
