import { expect, test } from "bun:test"
import { parseExact } from "../../src/lib/json.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { maskArguments } from "../../src/session/masked-arguments.ts"

const { maskCredentials: mask } = createRedactor(["hunter2hunter2"])

test("arguments are masked if their key or their form is that of a secret", () => {
  const args = {
    path: "/home/me",
    password: "short",
    api_key: { any: ["thing"] },
    list: [{ token: 7 }, "Bearer abcdefgh", "say hunter2hunter2"],
    count: 3,
    none: null,
  }
  expect(maskArguments(args, mask)).toEqual({
    path: "/home/me",
    password: "[REDACTED]",
    api_key: "[REDACTED]",
    list: [{ token: "[REDACTED]" }, "Bearer [REDACTED]", "say [REDACTED]"],
    count: 3,
    none: null,
  })
})

test("settings of a server are masked by the rule for mcp.json", () => {
  const server = {
    command: "x",
    args: ["-e", "DD_APP_KEY=canary1"],
    env: { DD_APP_KEY: "canary2", MODE: "x" },
    headers: { "X-Key": "canary3" },
  }
  const masked = maskArguments({ server, key: "ISSUE-1" }, mask)
  expect(JSON.stringify(masked)).not.toContain("canary")
  expect(masked).toMatchObject({ server: { command: "x", env: { MODE: "x" } }, key: "ISSUE-1" })
  for (const member of ["url", "serverUrl", "httpUrl"])
    expect(maskArguments({ [member]: "https://mcp.zapier.com/api/mcp/s/canary-of-a-path/mcp" }, mask)).toEqual({
      [member]: "https://mcp.zapier.com/api/mcp/s/•••/mcp",
    })
})

test("values are masked behind the flag or the name of a secret, and before they are cut", () => {
  const args = {
    args: ["run", "--api-key", "VALUE", "--path", "/x"],
    headers: [
      ["Authorization", "VALUE"],
      { name: "X-Api-Key", value: "VALUE" },
      { key: "token", value: { any: "VALUE" } },
      { name: "path", value: "/x" },
    ],
    long: `${"x".repeat(4090)}hunter2hunter2`,
  }
  expect(maskArguments(args, mask)).toEqual({
    args: ["run", "--api-key", "[REDACTED]", "--path", "/x"],
    headers: [
      ["Authorization", "[REDACTED]"],
      { name: "X-Api-Key", value: "[REDACTED]" },
      { key: "token", value: "[REDACTED]" },
      { name: "path", value: "/x" },
    ],
    long: `${"x".repeat(4090)}[REDAC`,
  })
})

test("keys in the settings of a server are masked within the bounds, and the other arguments stay", () => {
  const nested = { deep: [1, { more: "text" }] }
  const given = {
    command: "psql postgres://ann:opensesame@db.example/x",
    env: {
      ...Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`NAME_${at}`, "plain"])),
      LATE_TOKEN: "VALUE",
    },
    args: ["--token", "VALUE", nested],
    other: nested,
  }
  const masked = maskArguments(given, (text) => text) as Record<string, unknown>
  expect(masked.command).not.toContain("opensesame")
  expect(Object.keys(masked.env as object)).toHaveLength(100)
  expect([masked.args, masked.other]).toEqual([["--token", "•••", nested], nested])
  expect(given.args[1]).toBe("VALUE")
  expect(JSON.stringify(masked)).not.toContain("VALUE")
})

test("numbers are logged as the client wrote them", () => {
  const args = '{"n":[9007199254740993,1.0,-0,1e400]}'
  expect(JSON.stringify(maskArguments(parseExact(args), mask))).toBe(args)
})

test("arguments are bounded in depth, width and length, and a key named __proto__ is an ordinary key", () => {
  let deep: unknown = "x"
  for (let depth = 0; depth < 10_000; depth++) deep = [deep]
  expect(JSON.stringify(maskArguments(deep, mask))).toBe('[[[[[[[["…"]]]]]]]]')
  expect(maskArguments(Array.from({ length: 1000 }), mask)).toHaveLength(100)
  expect(String(maskArguments("x ".repeat(100_000), mask)).length).toBe(4096)
  const poison = maskArguments(JSON.parse('{"__proto__": {"polluted": 1}}'), mask)
  expect(Object.hasOwn(poison as object, "__proto__")).toBe(true)
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})
