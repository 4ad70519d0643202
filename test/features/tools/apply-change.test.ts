/** Tests the outcome of a change: kept, or undone with the reason. */
import { describe, expect, test } from "bun:test"
import { readdirSync, writeFileSync } from "node:fs"
import { addServer, removeServer, setDisabled } from "../../../src/config/edit.ts"
import {
  applyChange,
  applyEdit,
  refuseUnapplied,
  refuseUnconnected,
  warningsOf,
} from "../../../src/features/tools/apply-change.ts"
import { configChange } from "../../../src/features/tools/plan-change.ts"
import { tool } from "../../agent/memory-agent.ts"
import { until } from "../../process.ts"
import { stage } from "./stage.ts"

const adding = (name: string, server: object) => ({
  name,
  change: configChange(addServer(name, { ...server })),
  reverse: () => configChange(removeServer(name)),
  refuse: refuseUnconnected(name),
})

describe("a change", () => {
  test("is kept with a backup when its server is connected, without a remaining trial", async () => {
    await using at = stage({ config: { mcpServers: {} } })
    expect(await applyChange(at.context, adding("a", { command: "x" }))).toMatchObject({
      outcome: { kind: "connected", tools: 1, hiddenTools: 0, empty: false },
      reload: { applied: true, added: ["a"] },
      backup: expect.stringContaining("backups"),
    })
    expect(at.servers()).toEqual({ a: { command: "x" } })
    expect(
      readdirSync(at.paths.directory).filter((name) => name.startsWith("trial-") && name.endsWith(".json")),
    ).toEqual([])
  })

  test("is undone byte for byte if its server does not connect, and the error contains the end of the server's log", async () => {
    await using at = stage({ config: '{ "mcpServers": {} } // mine\r\n' })
    const before = at.documents()
    await expect(applyChange(at.context, adding("a", { command: "broken" }))).rejects.toMatchObject({
      fault: "rolled_back",
      message: "a: is not there. svc undid the change.",
      data: { log: ["the last line of its log"] },
    })
    expect(at.documents()).toEqual(before)
    expect(at.agent.all()).toEqual([])
  })

  test("says if the previous version no longer connects either", async () => {
    let works = true
    await using at = stage({ config: { mcpServers: { a: { command: "x" } } }, toolsOf: () => (works ? [] : undefined) })
    await at.start()
    works = false
    const change = { ...adding("a", {}), change: configChange(addServer("a", { command: "y" }, true)) }
    await expect(applyChange(at.context, change)).rejects.toMatchObject({
      message: "a: is not there. svc undid the change. The previous version no longer connects either: is not there",
    })
  })

  test("is not made for a caller that has given up, and is undone for one that gives up while it waits", async () => {
    const gone = new AbortController()
    gone.abort()
    await using before = stage({ signal: gone.signal })
    await expect(applyChange(before.context, adding("a", { command: "x" }))).rejects.toMatchObject({
      fault: "conflict",
      message: "The caller cancelled the call",
    })

    const waiting = new AbortController()
    await using during = stage({ signal: waiting.signal })
    const change = applyChange(during.context, adding("a", { command: "silent" }))
    const failed = change.catch(({ message }: Error) => message)
    await until(() => during.agent.backend("a") !== undefined)
    await during.clock.pass(4000)
    expect(during.reports).toEqual(["waiting for a to connect", "waiting for a to connect"])
    waiting.abort()
    expect(await failed).toBe("a: the caller cancelled the call. svc undid the change.")
    expect(during.servers()).toEqual({})
    expect(during.reports).toHaveLength(2)
  })

  test("that cannot be undone says so, and the file still contains it", async () => {
    await using at = stage({ config: { mcpServers: {} } })
    const change = {
      ...adding("a", { command: "broken" }),
      reverse: () => () => {
        throw new Error("no way back")
      },
    }
    const { editor } = at.context
    const meddling = {
      ...editor,
      async change(...args: Parameters<typeof editor.change>) {
        const made = await editor.change(...args)
        writeFileSync(at.paths.file, `${at.documents().config}// theirs\n`)
        return made
      },
    }
    await expect(applyChange({ ...at.context, editor: meddling }, change)).rejects.toMatchObject({
      fault: "internal",
      message: expect.stringContaining("svc could not undo the change"),
    })
    expect(at.documents().config).toContain("broken")
  })
})

test("an edit stays whatever happens to its server, and reports the outcome", async () => {
  await using at = stage({ config: { mcpServers: { a: { command: "broken", disabled: true } } } })
  const enabled = await applyEdit(at.context, "a", configChange(setDisabled("a", false)))
  expect(enabled.outcome).toEqual({ kind: "error", reason: "is not there" })
  const disabled = await applyEdit(at.context, "a", configChange(setDisabled("a", true)))
  expect(disabled).toMatchObject({ outcome: { kind: "absent" }, reload: { removed: ["a"] } })
})

test("after a change, the configuration must be applied, and the server connected or awaiting authorization", () => {
  const applied = { added: [], removed: [], replaced: [], retuned: [] }
  const issue = (message: string, server?: string) =>
    ({ code: "c", severity: "error", message, ...(server === undefined ? {} : { server }) }) as const
  const ok = { applied, issues: [] }
  const refused = { applied: undefined, issues: [issue("no JSON")] }
  const absent = { kind: "absent" } as const
  const refuse = refuseUnconnected("a")
  expect(refuseUnapplied(absent, ok)).toBeUndefined()
  expect(refuseUnapplied(absent, refused)).toBe("the configuration was refused: no JSON")
  expect(refuse(absent, refused)).toBe("the configuration was refused: no JSON")
  expect(refuse({ kind: "error", reason: "why" }, ok)).toBe("why")
  expect(refuse({ kind: "awaiting_oauth", url: undefined }, ok)).toBeUndefined()
  expect(refuse(absent, { applied, issues: [issue("left out", "a"), issue("other", "b")] })).toBe("left out")
  expect(refuse(absent, ok)).toBe("it was removed from the file")
})

test("an outcome that needs attention is a warning", () => {
  const connected = {
    kind: "connected",
    tools: 0,
    hiddenTools: 0,
    empty: false,
    failing: [],
    unknownOverrides: [],
  } as const
  expect(warningsOf("a", connected)).toEqual([])
  expect(warningsOf("a", { ...connected, empty: true })).toEqual([
    "a is connected but offers no tools, prompts or resources",
  ])
  expect(warningsOf("a", { ...connected, failing: ["tools/list: x"] })).toEqual(["a: tools/list: x"])
  expect(warningsOf("a", { ...connected, unknownOverrides: ["x"] })).toEqual([
    "a: toolDescriptionOverrides or toolOverrides names tools that the server does not have: x",
  ])
  expect(warningsOf("a", { kind: "awaiting_oauth", url: "https://x" })).toEqual([
    "a waits until a person opens https://x",
  ])
  expect(warningsOf("a", { kind: "awaiting_oauth", url: undefined })).toEqual([
    "a waits until a person runs `svc auth login a`",
  ])
  expect(warningsOf("a", { kind: "error", reason: "why" })).toEqual(["a does not run: why"])
  expect(warningsOf("a", { kind: "absent" })).toEqual([])
})

test("a server that lists nothing is connected and empty", async () => {
  await using at = stage({ config: { mcpServers: {} }, toolsOf: ({ command }) => (command === "x" ? [] : [tool("a")]) })
  expect(await applyChange(at.context, adding("a", { command: "x" }))).toMatchObject({
    outcome: { kind: "connected", tools: 0, hiddenTools: 0, empty: true },
  })
})
