import { expect, test } from "bun:test"
import {
  escapeReferences,
  externalizeSecrets,
  fillPlaceholders,
  maskPlaceholders,
  moveKeys,
  NO_SECRETS,
  placeholder,
} from "../../src/config/externalize-secrets.ts"
import type { HostEnvironment } from "../../src/config/plan.ts"

const world = (parent: Record<string, string> = {}, dotenv: Record<string, string> = {}): HostEnvironment => ({
  platform: "linux",
  parent,
  dotenv,
  home: "/home/me",
  folder: "/home/me",
})

test("secrets go to .env, and other values stay", () => {
  const server = {
    command: "x",
    env: { API_TOKEN: "t$$1", REGION: "eu", REF_TOKEN: "${OTHER}", EMPTY_TOKEN: "", ODD: "o" },
  }
  expect(externalizeSecrets(server, "W", { names: new Set(["ODD"]), hidden: {} }, world())).toEqual({
    server: {
      command: "x",
      env: { API_TOKEN: "${API_TOKEN}", REGION: "eu", REF_TOKEN: "${OTHER}", EMPTY_TOKEN: "", ODD: "${ODD}" },
    },
    variables: { API_TOKEN: "t$1", ODD: "o" },
    references: ["API_TOKEN", "ODD"],
  })
})

test("a client's secret goes to .env too, and nothing else of oauth", () => {
  const oauth = { clientId: "me", clientSecret: "s$$1", tokenEndpointAuthMethod: "client_secret_post", scopes: ["a"] }
  expect(externalizeSecrets({ url: "http://h", oauth }, "W", NO_SECRETS, world())).toEqual({
    server: { url: "http://h", oauth: { ...oauth, clientSecret: "${W_CLIENTSECRET}" } },
    variables: { W_CLIENTSECRET: "s$1" },
    references: ["W_CLIENTSECRET"],
  })
  const kept = { ...NO_SECRETS, kept: new Set(["clientSecret"]) }
  expect(externalizeSecrets({ oauth }, "W", kept, world())).toMatchObject({ server: { oauth }, variables: {} })
})

test("an assertion and an ID token go to .env too", () => {
  const oauth = {
    assertion: "jwt-1",
    subjectToken: "jwt-2",
    subjectTokenFile: "file",
    identityProviderClientSecret: "s",
  }
  expect(externalizeSecrets({ url: "http://h", oauth }, "W", NO_SECRETS, world())).toMatchObject({
    server: { oauth: { assertion: "${W_ASSERTION}", subjectToken: "${W_SUBJECTTOKEN}", subjectTokenFile: "file" } },
    variables: { W_ASSERTION: "jwt-1", W_SUBJECTTOKEN: "jwt-2", W_IDENTITYPROVIDERCLIENTSECRET: "s" },
  })
})

test("a key that the environment of the command has too goes to .env: svc may run in another one [secrets:moved]", () => {
  const server = { command: "x", env: { API_TOKEN: "t1" } }
  const moved = (parent: Record<string, string>, dotenv = {}) =>
    externalizeSecrets(server, "W", NO_SECRETS, world(parent, dotenv)).variables
  expect(moved({ API_TOKEN: "t1" })).toEqual({ API_TOKEN: "t1" })
  expect(moved({}, { API_TOKEN: "t1" })).toEqual({})
})

test("the value of a flag or variable among the arguments moves as a whole [secrets:moved]", () => {
  const args = ["--password=p@ss w0rd!tail", "-e", "DB_PASSWORD=a1'b2 c3", "DD_APP_KEY=k1", "--key-file=/k", "MODE=x"]
  expect(externalizeSecrets({ command: "x", args }, "W", NO_SECRETS, world())).toMatchObject({
    server: {
      args: [
        "--password=${W_PASSWORD}",
        "-e",
        "DB_PASSWORD=${W_DB_PASSWORD}",
        "DD_APP_KEY=${W_DD_APP_KEY}",
        args[4],
        args[5],
      ],
    },
    variables: { W_PASSWORD: "p@ss w0rd!tail", W_DB_PASSWORD: "a1'b2 c3", W_DD_APP_KEY: "k1" },
  })
})

test("the default of a reference stays, because no reference can stand within it [secrets:moved]", () => {
  const key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
  const server = { command: "x", env: { A_TOKEN: `\${A:-${key}}` }, args: [`--token=\${T:-${key}}`, `--token=${key}`] }
  expect(externalizeSecrets(server, "W", NO_SECRETS, world())).toMatchObject({
    server: { ...server, args: [server.args[0], "--token=${W_TOKEN}"] },
    variables: { W_TOKEN: key },
  })
})

test("a variable that has another value is not reused", () => {
  const named = (parent: Record<string, string>, dotenv: Record<string, string>) =>
    externalizeSecrets({ env: { A_KEY: "mine" } }, "MY-SERVER", NO_SECRETS, world(parent, dotenv))
  expect(named({}, { A_KEY: "mine" })).toMatchObject({ server: { env: { A_KEY: "${A_KEY}" } }, variables: {} })
  expect(named({ A_KEY: "theirs" }, {})).toMatchObject({ variables: { MY_SERVER_A_KEY: "mine" } })
  expect(named({ A_KEY: "theirs" }, { MY_SERVER_A_KEY: "other" })).toMatchObject({
    variables: { MY_SERVER_A_KEY_2: "mine" },
  })
})

test("a secret in an argument or an address is also replaced with a reference", () => {
  const server = {
    args: ["--key", placeholder("key")],
    url: `http://h/?k=${placeholder("key")}`,
    headers: { X: "plain" },
  }
  expect(externalizeSecrets(server, "s", { names: new Set(), hidden: { key: "sekret" } }, world())).toEqual({
    server: { args: ["--key", "${S_KEY}"], url: "http://h/?k=${S_KEY}", headers: { X: "plain" } },
    variables: { S_KEY: "sekret" },
    references: ["S_KEY"],
  })
  expect(maskPlaceholders(server, { hidden: { key: "sekret" } })).toMatchObject({
    args: ["--key", "•••"],
    url: "http://h/?k=•••",
  })
  expect(fillPlaceholders(server, { hidden: { key: "sekret" } })).toMatchObject({
    args: ["--key", "sekret"],
    url: "http://h/?k=sekret",
  })
  // An option is not a secret: it decides what runs.
  expect(maskPlaceholders(server, { hidden: { key: "--require=/x.cjs" } })).toMatchObject({
    args: ["--key", "--require=/x.cjs"],
  })
})

test("a text is literal unless the whole text is a reference", () => {
  expect([escapeReferences("${A}"), escapeReferences("$A"), escapeReferences("x${A}"), escapeReferences("1$")]).toEqual(
    ["${A}", "$$A", "x$${A}", "1$$"],
  )
})

test("keys of defaults, registries and notifications move too, and those of a shadowed server [secrets:moved]", () => {
  const hook = "https://hooks.slack.com/services/"
  const key = "T01ABCDEF/B01ABCDEF/a1B2c3D4e5F6g7H8i9J0k1L2"
  const text = (of: (name: string, key: string) => string) =>
    JSON.stringify({
      serverDefaults: { env: { A_TOKEN: of("A_TOKEN", "canary-1") }, oauth: { clientId: "me" } },
      servers: { one: { command: "x", env: { B_TOKEN: of("B_TOKEN", "canary-2") } } },
      mcpServers: { one: { command: "x", env: { C_TOKEN: of("C_TOKEN", "canary-3") } } },
      registries: [
        {
          name: "ours",
          url: `https://example.com/${of("REGISTRIES_0_URL_KEY", "sk-canary4canary4")}`,
          headers: { Authorization: of("REGISTRIES_0_AUTHORIZATION", "Bearer canary-5") },
        },
      ],
      notify: [
        { command: "x", args: ["--token", of("NOTIFY_0_TOKEN", "canary-6")], on: ["sign-in"] },
        { url: hook + of("NOTIFY_1_URL_KEY", key), secret: of("NOTIFY_1_SECRET", "canary-7") },
      ],
    })
  const written = text((_, value) => value)
  const { config, variables, places } = moveKeys(written, "all", world())
  expect(config).toBe(text((name) => `\${${name}}`))
  expect(variables).toMatchObject({ A_TOKEN: "canary-1", B_TOKEN: "canary-2", NOTIFY_1_URL_KEY: key })
  expect(places.map(({ place }) => place)).toEqual([
    "one: env.B_TOKEN",
    "one: env.C_TOKEN",
    "serverDefaults: env.A_TOKEN",
    "registries[0]: headers.Authorization",
    "registries[0]: url",
    "notify[0]: args[1]",
    "notify[1]: url",
    "notify[1]: secret",
  ])
  expect(JSON.stringify(places)).not.toContain("canary")
  // Named servers alone.
  expect(moveKeys(written, ["one"], world()).variables).toEqual({ B_TOKEN: "canary-2", C_TOKEN: "canary-3" })
})
