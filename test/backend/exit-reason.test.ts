import { expect, test } from "bun:test"
import { ExitReason, pickReason } from "../../src/backend/exit-reason.ts"
import { manualClock } from "../clock.ts"

test("picks the line that names the error", () => {
  const npm = ["npm error code E404", "npm error 404 Not Found - GET https://registry.example.com/x", "npm error 404"]
  expect(pickReason(npm)).toBe("npm error 404 Not Found - GET https://registry.example.com/x")
  const node = [
    "node:internal/modules/cjs/loader:1143",
    "  throw err;",
    "  ^",
    "",
    "Error: Cannot find module '/x.js'",
    "    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)",
    "Node.js v20.1.0",
  ]
  expect(pickReason(node)).toBe("Error: Cannot find module '/x.js'")
  const warned = ["Warning: Cannot access /x, skipping", "Error: None of the directories are accessible"]
  expect(pickReason(warned)).toBe("Error: None of the directories are accessible")
  expect(pickReason(["npm warn deprecated: not found"])).toBe("npm warn deprecated: not found")
  const python = [
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in <module>',
    "ModuleNotFoundError: No module named 'x'",
  ]
  expect(pickReason(python)).toBe("ModuleNotFoundError: No module named 'x'")
})

test("picks the last line if none names an error, and nothing if there is none", () => {
  expect(pickReason(["starting", "set API_KEY first", "  like so"])).toBe("set API_KEY first")
  expect(pickReason([])).toBeUndefined()
  expect(pickReason([`Error: ${"x".repeat(1000)}`])?.length).toBeLessThan(400)
})

test("ignores lines from long before the exit", async () => {
  const clock = manualClock()
  const exitReason = new ExitReason(clock)
  for (let n = 0; n < 1000; n++) exitReason.observe(`Error: number ${n}`)
  expect(exitReason.reason()).toMatch(/^Error: number 9[0-9]{2}$/)
  await clock.pass(60_000)
  expect(exitReason.reason()).toBeUndefined()
  exitReason.observe("bye")
  expect(exitReason.reason()).toBe("bye")
})
