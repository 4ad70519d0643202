import { expect, test } from "bun:test"
import { changedSettings, commandText, hidesSecrets } from "../../src/config/server-text.ts"
import { writtenValues } from "../../src/config/written-values.ts"

test("only hideable values under secret names are hidden; values that a registry or a file sets are shown [tools:shown]", () => {
  const env = {
    NODE_OPTIONS: "--require /tmp/x.js",
    API_TOKEN: "sekret",
    B_TOKEN: "Bearer ${GITHUB_TOKEN}",
    ODD: "sekret",
    EVIL_TOKEN: "--require=/tmp/evil.js",
  }
  const typed = { API_TOKEN: "sekret", B_TOKEN: env.B_TOKEN, ODD: "sekret", EVIL_TOKEN: "something else" }
  expect(
    commandText({ command: "bun", env, cwd: "/a b", inheritParentEnv: true }, hidesSecrets(typed, new Set(["ODD"]))),
  ).toBe(
    'bun in "/a b" with NODE_OPTIONS="--require /tmp/x.js" API_TOKEN=••• B_TOKEN=•••${GITHUB_TOKEN} ODD=••• EVIL_TOKEN=--require=/tmp/evil.js inheritParentEnv=true',
  )
  const secret = new Set(["NODE_OPTIONS", "A"])
  expect(
    commandText(
      { command: "bun", env: { NODE_OPTIONS: "--require=/home/me/evil.cjs", A: "b" } },
      hidesSecrets({}, secret),
    ),
  ).toBe("bun with NODE_OPTIONS=--require=/home/me/evil.cjs A=b")
  const given = { NODE_OPTIONS: "--require=x", GIT_ASKPASS: "/tmp/evil" }
  expect(commandText({ command: "bun", env: given }, hidesSecrets(given, secret))).toBe(
    "bun with NODE_OPTIONS=--require=x GIT_ASKPASS=/tmp/evil",
  )
  const remote = { url: "https://x/mcp?a=b", headers: { Authorization: "Bearer $MY", "X-Team": "a" } }
  expect(commandText(remote)).toBe('connect to https://x/mcp?a=b with Authorization="Bearer $MY" X-Team=a')
  expect(commandText(remote, hidesSecrets(writtenValues(remote)))).toBe(
    "connect to https://x/mcp?a=b with Authorization=•••$MY X-Team=a",
  )
  const list = { command: "bun", env: ["HOME_OF", "API_KEY=sekret$$HOME", "A=b=c"], envFilter: ["AWS_*"] }
  expect(commandText(list, hidesSecrets(writtenValues(list)))).toBe(
    'bun with HOME_OF API_KEY=••• A=b=c envFilter=["AWS_*"]',
  )
  const workload = { url: "https://x", oauth: { clientId: "me", assertion: "sekret", assertionFile: "file" } }
  expect(commandText(workload, hidesSecrets(writtenValues(workload)))).toContain(
    'oauth={"clientId":"me","assertion":"•••","assertionFile":"file"}',
  )
  const own = { url: "https://x", oauth: { clientId: "me", clientSecret: "sekret" } }
  expect(commandText(own, hidesSecrets(writtenValues(own)))).toBe(
    'connect to https://x with oauth={"clientId":"me","clientSecret":"•••"}',
  )
})

test("blank symbols and characters without an agreed shape are escaped", () => {
  expect(commandText({ command: "sh", args: ["a\u2800b", "\u{1d159}", "\ue000"] })).toBe(
    'sh "a\\u2800b" "\\ud834\\udd59" "\\ue000"',
  )
})

test("no argument, address or name can look like another part of the command", () => {
  const server = { command: "sh", args: ["x", "in", "/safe", "with", "A=1"], cwd: "/evil", env: { "B C": "2" } }
  expect(commandText(server)).toBe('sh x "in" /safe "with" A=1 in /evil with "B C"=2')
  expect(commandText({ url: "https://x with A=1" })).toBe('connect to "https://x with A=1"')
})

test("of a command and a url, the one that is used comes first, and the other is shown too [tools:shown]", () => {
  const both = { command: "/tmp/evil.sh", args: ["a"], url: "https://docs.example.com/mcp" }
  const runs = '/tmp/evil.sh a with url="https://docs.example.com/mcp"'
  expect(commandText(both)).toBe(runs)
  expect(commandText({ ...both, type: "stdio" })).toBe(runs)
  expect(commandText({ ...both, type: "{{transport.type}}" })).toBe(runs)
  expect(commandText({ ...both, type: "http", headers: { A: "b" } })).toBe(
    'connect to https://docs.example.com/mcp with command="/tmp/evil.sh" args=["a"] A=b',
  )
  expect(commandText({ serverUrl: "https://docs.example.com/mcp" })).toBe("connect to https://docs.example.com/mcp")
  expect(commandText({ command: "connect", args: ["to", "https://docs.example.com/mcp"] })).toBe(
    '"connect" to https://docs.example.com/mcp',
  )
})

test("settings that the command does not show are shown before and after the change", () => {
  expect(
    changedSettings(
      { command: "x", tags: ["a"], toolDescriptionOverrides: { t: "old" } },
      { command: "y", tags: ["a"], toolDescriptionOverrides: { t: "new\u200b" }, disabledTools: ["u"] },
    ),
  ).toEqual(['toolDescriptionOverrides: {"t":"old"} -> {"t":"new\\u200b"}', 'disabledTools: ["u"]'])
})
