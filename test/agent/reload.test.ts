import { afterEach, expect, test } from "bun:test"
import { mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createReload } from "../../src/agent/reload.ts"
import { formatIssue } from "../../src/lib/errors.ts"
import { readTexts } from "../../src/store/documents.ts"
import { settle } from "../clock.ts"
import { createMemoryAgent, tool, WORLD } from "./memory-agent.ts"

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** An agent that follows real documents in a temporary folder. */
function follow() {
  const directory = mkdtempSync(join(tmpdir(), "svc-reload-"))
  folders.push(directory)
  const at = (name: string) => join(directory, name)
  const paths = { directory, file: at("mcp.json"), dotenv: at(".env"), presets: at("presets.json") }
  const { agent, log } = createMemoryAgent(() => [tool("one")])
  const instances = { update: agent.apply.bind(agent) }
  const apply = createReload({ agent, instances, log, paths, read: () => readTexts(paths), world: WORLD })
  return {
    agent,
    paths,
    write: (document: unknown) => writeFileSync(paths.file, JSON.stringify(document)),
    /** Reloads. Resolves to the issues and to what changed. */
    async reload() {
      const { applied, issues } = apply()
      await settle()
      return { applied, issues: issues.map((issue) => formatIssue(issue).replaceAll(`${directory}/`, "")) }
    },
  }
}

test("an empty file is refused at the start and later, a missing one only later [config:file:empty]", async () => {
  for (const text of ["", " \n"]) {
    const { agent, paths, reload, write } = follow()
    writeFileSync(paths.file, text)
    expect(await reload()).toEqual({
      applied: undefined,
      issues: ["mcp.json:1:1: not valid JSON: the file is empty; write {} for a configuration without servers"],
    })
    expect(agent.loaded).toBe(false)
    write({})
    expect((await reload()).issues).toEqual([])
    expect(agent.loaded).toBe(true)
    writeFileSync(paths.file, text)
    expect((await reload()).applied).toBeUndefined()
  }
  const { agent, paths, reload, write } = follow()
  expect((await reload()).issues).toEqual([])
  expect(agent.loaded).toBe(true)
  write({})
  await reload()
  unlinkSync(paths.file)
  expect((await reload()).issues).toEqual([
    "mcp.json:1:1: the file is gone; write {} for a configuration without servers",
  ])
})
