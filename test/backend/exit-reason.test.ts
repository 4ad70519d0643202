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
  expect(pickReason(["cannot use the key", "-----END RSA PRIVATE KEY-----"])).toBe("cannot use the key")
  expect(pickReason(["the key is no good", "-----END RSA PRIVATE KEY-----"])).toBe("the key is no good")
  const help = [
    "------",
    "  Server",
    "------",
    "Unknown transport: -k",
    "Transports:",
    "- a",
    'line "------" repeated once',
  ]
  expect(pickReason(help)).toBe("Unknown transport: -k")
  expect(pickReason(["stopped", "======", "last line repeated 3 times"])).toBe("stopped")
  expect(pickReason(["npm warn deprecated: not found"])).toBe("npm warn deprecated: not found")
  const python = [
    "Traceback (most recent call last):",
    '  File "x.py", line 1, in <module>',
    "ModuleNotFoundError: No module named 'x'",
  ]
  expect(pickReason(python)).toBe("ModuleNotFoundError: No module named 'x'")
})

test("picks the error of a crash, not the line of source that threw it [exit:reason]", () => {
  const node = [
    "file:///srv/boom.mjs:1",
    'console.error("booting"); setTimeout(()=>{throw new Error("boom: cannot open database")})',
    "                                                ^",
    "",
    "Error: boom: cannot open database /data/x.db",
    "    at Timeout._onTimeout (file:///srv/boom.mjs:1:55) {",
    "  code: 'E_DB'",
    "}",
    "",
    "Node.js v22.20.0",
  ]
  expect(pickReason(node)).toBe("Error: boom: cannot open database /data/x.db")
  const chained = [
    "Traceback (most recent call last):",
    '  File "/srv/x.py", line 2, in <module>',
    "FileNotFoundError: [Errno 2] No such file or directory: '/x'",
    "",
    "During handling of the above exception, another exception occurred:",
    "",
    "Traceback (most recent call last):",
    '  File "/srv/x.py", line 4, in <module>',
    "mcp.shared.exceptions.McpError: 1 validation error for Settings",
    "API_KEY",
    "  Field required",
  ]
  expect(pickReason(chained)).toBe("mcp.shared.exceptions.McpError: 1 validation error for Settings")
  const group = [
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "/srv/x.py", line 2, in <module>',
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    '    |   File "/srv/x.py", line 1, in f',
    "    | ValueError: boom",
    "    +------------------------------------",
  ]
  expect(pickReason(group)).toBe("ValueError: boom")
  expect(pickReason(["usage: x [--port]", "error: unknown option '--prot'"])).toBe("error: unknown option '--prot'")
})

test.each([
  [
    "npm error 404 Not Found - GET https://registry.npmjs.org/@modelcontextprotocol%2fserver-x",
    "registry.npmjs.org has no npm package named @modelcontextprotocol/server-x, or it is private: correct its name (npm error 404)",
  ],
  [
    "npm ERR! 404 Not Found - GET https://npm.example.com/team/some-server",
    "npm.example.com has no npm package named some-server, or it is private: correct its name (npm error 404)",
  ],
  [
    "npm error notarget No matching version found for @scope/server@99.0.0.",
    "npm error notarget No matching version found for @scope/server@99.0.0; name another version of the package, or none",
  ],
  ["ModuleNotFoundError: No module named 'mcp'", /; install it for the Python/],
  ["Error: Cannot find module '/srv/dist/index.js'", /; correct the path/],
  ["docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?", /; start Docker$/],
  [
    "Because mcp-server-tme was not found in the package registry, it cannot be used.",
    /; correct the name of the Python/,
  ],
  ["Error: API_KEY is not set", "Error: API_KEY is not set"],
])("says what to do about %s [exit:reason]", async (line, said) => {
  const reason = new ExitReason(manualClock())
  reason.observe(line)
  if (typeof said === "string") expect(reason.reason()).toBe(said)
  else expect(reason.reason()).toMatch(said)
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
