import { expect, test } from "bun:test"
import { existsSync, readdirSync } from "node:fs"
import { addServer, removeServer } from "../../../src/config/edit.ts"
import { configChange } from "../../../src/features/tools/plan-change.ts"
import { settle } from "../../clock.ts"
import { stage } from "./stage.ts"

test("a change is written and applied at once; one that throws writes nothing", async () => {
  await using at = stage({ config: { mcpServers: {} }, dotenv: "A=1\n" })
  const { editor } = at.context
  const { done, reloaded } = await editor.change(configChange(addServer("a", { command: "x" })))
  expect([done.before.config, done.after.dotenv]).toEqual(['{"mcpServers":{}}', "A=1\n"])
  expect([reloaded.applied?.added, at.agent.all().length]).toEqual([["a"], 1])
  await expect(editor.change(configChange(addServer("a", { command: "y" })))).rejects.toThrow("already")
  expect(at.servers()).toEqual({ a: { command: "x" } })
})

test("a change on trial is noted until it is kept, and can be undone", async () => {
  await using at = stage({ config: { mcpServers: {} } })
  const { editor } = at.context
  const trials = () => readdirSync(at.paths.directory).filter((name) => /^trial-.*\.json$/.test(name)).length
  const { done } = await editor.change(configChange(addServer("a", { command: "x" })), "a")
  expect(trials()).toBe(1)
  await done.undo(configChange(removeServer("a")))
  expect([trials(), at.servers(), existsSync(`${at.paths.directory}/backups`)]).toEqual([0, {}, false])
})

test("the documents are planned with a given text of .env", async () => {
  await using at = stage()
  expect(at.context.editor.world("A=1\nB='x y'\n")).toMatchObject({
    dotenv: { A: "1", B: "x y" },
    folder: at.paths.directory,
  })
})

test("exclusive functions run one after the other, also after one that rejects", async () => {
  await using at = stage()
  const { editor } = at.context
  const order: string[] = []
  const gate = Promise.withResolvers<void>()
  const run = (name: string, wait: Promise<void>) =>
    editor.exclusive(async () => {
      order.push(`${name} begins`)
      await wait
      order.push(`${name} ends`)
      if (name === "one") throw new Error("one fails")
      return name
    })
  const one = run("one", gate.promise)
  const two = run("two", Promise.resolve())
  const failed = one.catch(({ message }: Error) => message)
  await settle()
  expect(order).toEqual(["one begins"])
  gate.resolve()
  expect([await failed, await two]).toEqual(["one fails", "two"])
  expect(order).toEqual(["one begins", "one ends", "two begins", "two ends"])
})
