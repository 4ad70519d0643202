import { expect, test } from "bun:test"
import { createExitReason, pickReason } from "../../src/backend/exit-reason.ts"
import { manualClock } from "../clock.ts"

test("of what a process said before it ended, the line that names the error says why", () => {
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

test("where no line names an error the last one is told, and where none was said, none", () => {
  expect(pickReason(["starting", "set API_KEY first", "  like so"])).toBe("set API_KEY first")
  expect(pickReason([])).toBeUndefined()
  expect(pickReason([`Error: ${"x".repeat(1000)}`])?.length).toBeLessThan(400)
})

test("what was said long before the end is not taken for its reason", async () => {
  const clock = manualClock()
  const words = createExitReason(clock)
  for (let n = 0; n < 1000; n++) words.observe(`Error: number ${n}`)
  expect(words.reason()).toMatch(/^Error: number 9[0-9]{2}$/)
  await clock.pass(60_000)
  expect(words.reason()).toBeUndefined()
  words.observe("bye")
  expect(words.reason()).toBe("bye")
})
