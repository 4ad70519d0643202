/** The outcome that commands report for a server that they change. */
import { expect, test } from "bun:test"
import { aboutServer, outcomeOf } from "../../src/commands/follow.ts"
import type { Status } from "../../src/report/status.ts"

const statusWith = (server: Record<string, unknown>) =>
  ({
    servers: [{ id: "slow", name: "slow", ...server }],
    disabled: [],
    templates: [],
    invalid: {},
  }) as unknown as Status

test.each([
  [
    { state: "starting", lastError: "no answer yet (10 s of 5 min)" },
    ": still starting (no answer yet, 10 s of 5 min); `svc mcp status slow` shows the progress",
  ],
  [{ state: "starting" }, ": still starting; `svc mcp status slow` shows the progress"],
  [{ state: "crash-loop", lastError: "exit code 1" }, "; it does not start: exit code 1"],
])("the outcome of %j is%s [cli:writes:outcome]", (server, text) => {
  expect(outcomeOf("slow", statusWith(server)).text).toBe(text)
})

test.each([
  [{ state: "crash-loop", lastError: "exit code 1" }, "slow does not start: exit code 1"],
  [{ state: "token needed", lastError: "requires a token" }, "slow requires a token"],
  [{ state: "connected", tools: 2 }, "slow: connected, 2 tools"],
])("as a sentence, the outcome of %j is: %s [cli:writes:outcome]", (server, text) => {
  expect(aboutServer(outcomeOf("slow", statusWith(server)))).toBe(text)
})

test("as a sentence, a server that is not loaded is named once [cli:writes:outcome]", () => {
  const status = { servers: [], disabled: [], templates: [], invalid: { slow: "no command" } } as unknown as Status
  expect(aboutServer(outcomeOf("slow", status))).toBe("slow is not loaded: no command")
})
