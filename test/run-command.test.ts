/** The helper that runs commands in this process gives the process back as it was. */
import { expect, test } from "bun:test"
import { freshFolder } from "./e2e/harness.ts"
import { commandsIn } from "./run-command.ts"

test("a command sees its own home, and leaves the environment, folder, streams and signals of the process unchanged", async () => {
  const state = () => [
    { ...process.env },
    process.cwd(),
    process.stdin.isTTY,
    process.stdout.write,
    process.stderr.write,
    process.stdout.isTTY,
    process.listenerCount("SIGINT"),
  ]
  const before = state()
  const home = freshFolder()
  for (const words of [["config", "path"], ["mcp", "remove", "none"], ["nonsense"], ["config", "import", "--yes"]])
    await commandsIn(home)(...words)
  expect(state()).toEqual(before)
  expect((await commandsIn(home)("config", "path")).stdout).toBe(`${home}/mcp.json\n`)
})
