/** `svc mcp add`, `add-json` and `edit`, as people type and paste them. */
import { expect, test } from "bun:test"
import { join } from "node:path"
import { freshFolder, readIfThere } from "../e2e/harness.ts"
import { commandsIn, runCommand } from "../run-command.ts"

function fresh() {
  const home = freshFolder()
  return {
    svc: (line: readonly string[]) => runCommand(line, { home, env: { SVC_CONFIG_DIR: home } }),
    servers: () => JSON.parse(readIfThere(join(home, "mcp.json")) ?? "{}").mcpServers,
  }
}

test.each([
  ["mcp add --transport http it https://mcp.it.example/mcp", { type: "http", url: "https://mcp.it.example/mcp" }],
  [
    "mcp add it https://mcp.it.example/mcp -H X-Key:abc",
    { url: "https://mcp.it.example/mcp", headers: { "X-Key": "abc" } },
  ],
  ["mcp add it npx -y it-server", { command: "npx", args: ["-y", "it-server"] }],
  ["mcp add it -e KEY=1 -- npx -y it", { command: "npx", args: ["-y", "it"], env: { KEY: "1" } }],
  ["mcp add it --env A=1 B=2 -t stdio -- npx", { type: "stdio", command: "npx", env: { A: "1", B: "2" } }],
  ["mcp add it -s user --tags a,b --tag c -- npx", { command: "npx", tags: ["a", "b", "c"] }],
  ["mcp add it --url mcp.it.example/mcp", { url: "https://mcp.it.example/mcp" }],
  ["mcp add it -t sse --url localhost:3000/sse", { type: "sse", url: "http://localhost:3000/sse" }],
  ["claude mcp add it -- npx", { command: "npx" }],
  ["add it npx", { command: "npx" }],
  ['mcp add-json it {"command":"npx","env":{"A":"1"}}', { command: "npx", env: { A: "1" } }],
  ['mcp add-json {"mcpServers":{"it":{"httpUrl":"https://x.example/mcp"}}}', { url: "https://x.example/mcp" }],
  ['mcp add-json {"name":"it","command":"npx"}', { command: "npx" }],
])("svc %s adds the server [cli:add] [cli:add:address] [cli:add:json]", async (line, server) => {
  const { svc, servers } = fresh()
  expect(await svc(line.split(" "))).toMatchObject({ code: 0, stdout: expect.stringMatching(/^added it \(/) })
  expect(servers()).toEqual({ it: server })
})

test("a line that svc does not accept is answered with one that it accepts [cli:add] [cli:add:address] [cli:aliases]", async () => {
  const { svc } = fresh()
  for (const [line, message] of [
    ["mcp add it mcp.it.example/mcp", "write https://mcp.it.example/mcp, or put the program after --"],
    ["mcp add it --url it", "it is not an http or https address, such as https://mcp.example.com/mcp"],
    [
      "mcp add it ftp://it.example/mcp",
      "ftp://it.example/mcp is not a program, and svc connects only to http and https addresses",
    ],
    ["mcp add it -- wss://it.example/mcp", "wss://it.example/mcp is not a program"],
    ['mcp add-json it {"command":"wss://it.example/"}', "wss://it.example/ is not a program"],
    ["mcp add it npx --config new.json", "--config after npx may be svc's or the program's"],
    ["mcp add it --transport htp https://it.example/mcp", "--transport must be stdio, http or sse, not htp"],
    ["mcp edit it --type htp", "--type must be stdio, http or sse, not htp"],
    ["connect claude", "no client is named claude; did you mean claude-code?"],
    ["connect code", "no client is named code; did you mean vscode?"],
    ["connect netscape", "no client is named netscape; `svc connect --list` lists the clients"],
    ["clients", "`svc connect --list` lists the clients"],
    [
      "init",
      "`svc setup` imports the servers of your clients; `svc serve --init` and `svc mcp add` also create the configuration",
    ],
    ["validate", "`svc config check` checks the configuration"],
    ["kill", "`svc stop` stops svc"],
    ["config show", "`svc mcp list` lists the servers"],
    ["mcp add claude mcp add it -- npx", "leave out `claude mcp add`: svc mcp add it -- npx"],
    ["mcp add it", "`svc mcp install it` looks for it in the registries"],
    ["mcp add npx -y it", "the name is missing: svc mcp add NAME npx …"],
    ["mcp add https://it.example/mcp", "the name is missing: svc mcp add NAME https://it.example/mcp"],
    ["nonsense", "`svc --help` lists the commands"],
    ["dev", "`svc mcp restart NAME --watch PATH`"],
    ["config edit", "`svc config path` names the file"],
    ["start", "`svc serve` starts svc (in the background with --background)"],
    ["mcp stop it", "`svc mcp disable NAME` stops a server"],
    ["statsu", "did you mean status?"],
  ] as const) {
    const { code, stderr } = await svc(line.split(" "))
    expect([code, stderr]).toEqual([64, expect.stringContaining(message)])
  }
  // The name of a program is a name before a program.
  for (const line of ["mcp add docker -- docker run -i it", "mcp add node npx -y it"])
    expect(await svc([...line.split(" "), "--no-start"])).toMatchObject({ code: 0 })
  for (const line of ["status", "ls", "mcp ls", "preset ls", "version", "import", "config validate"])
    expect((await svc(line.split(" "))).code).toBe(0)
  for (const line of ["hide docker/x", "mcp hide docker/y"])
    expect((await svc(line.split(" "))).stdout).toMatch(/disabled [xy] of docker/)
  expect(await svc(["preset", "rm", "none"])).toMatchObject({ code: 64, stderr: expect.stringContaining("no preset") })
})

test("svc accepts the OAuth flags and scopes of other clients, and removes several servers at once [cli:add]", async () => {
  const folder = freshFolder()
  const svcIn = commandsIn(folder, { env: { MCP_CLIENT_SECRET: "s3c$ret" } })
  const svc = (...line: string[]) => svcIn("mcp", ...line)
  const flags = ["--client-id", "me", "--client-secret", "--callback-port", "8080"]
  const added = await svc("add", "it", "https://it.example/mcp", ...flags)
  expect([added.code, added.stderr]).toEqual([
    0,
    [
      "--callback-port has no effect: svc receives the sign-in at its own address, or at oauth.redirectUrl\n",
      "warning: it: oauth.clientSecret looks like a key, and mcp.json contains it in plain text; `svc secret import` moves it to .env\n",
    ].join(""),
  ])
  expect(JSON.parse(readIfThere(join(folder, "mcp.json")) ?? "").mcpServers).toEqual({
    it: { url: "https://it.example/mcp", oauth: { clientId: "me", clientSecret: "s3c$$ret" } },
  })
  expect((await svc("add", "two", "https://it.example/mcp", "--client-secret")).code).toBe(64)
  await svc("add", "two", "--", "x")
  expect((await svc("remove", "it", "nosuch")).code).toBe(64)
  const removed = await svc("remove", "it", "two", "-s", "user")
  expect([removed.code, removed.stdout]).toEqual([0, expect.stringMatching(/^removed it, two \(/)])
  expect(removed.stderr).toBe("--scope has no effect: svc has one configuration for all projects\n")
})

test("svc accepts the flags of Codex and Gemini CLI, and says what has no effect [cli:add]", async () => {
  const { svc, servers } = fresh()
  const codex = "codex mcp add far --url https://far.example/mcp --bearer-token-env-var FAR_TOKEN"
  expect((await svc(codex.split(" "))).code).toBe(0)
  const gemini = "gemini mcp add --trust --timeout 5000 --exclude-tools a,b --include-tools c near bun x"
  const { code, stderr } = await svc(gemini.split(" "))
  expect([code, stderr]).toEqual([
    0,
    [
      '--include-tools has no effect; `svc preset create NAME --allow "near/c"` limits the tools\n',
      "--trust has no effect: clients decide which calls need approval\n",
    ].join(""),
  ])
  expect(servers()).toEqual({
    far: { url: "https://far.example/mcp", headers: { Authorization: "Bearer ${FAR_TOKEN}" } },
    near: { command: "bun", args: ["x"], disabledTools: ["a", "b"] },
  })
  expect((await svc(["mcp", "add", "it", "--url", "https://x/mcp", "--bearer-token-env-var", "a b"])).code).toBe(64)
})

test("svc warns of a command that is not found, and adds the server nevertheless [cli:add]", async () => {
  const { svc, servers } = fresh()
  const lines = [
    ["add", "it", "npx -y it"],
    ["add-json", "other", '{"command":"npx -y it"}'],
  ]
  for (const line of lines)
    expect((await svc(["mcp", ...line])).stderr).toBe(
      `warning: ${line[1]}: command not found: "npx -y it" (put its arguments into "args")\n`,
    )
  expect((await svc(["mcp", "add", "typo", "npxx"])).stderr).toStartWith("warning: typo: command not found: npxx (")
  expect((await svc(["mcp", "add", "good", "bun"])).stderr).toBe("")
  expect(Object.keys(servers())).toEqual(["it", "other", "typo", "good"])
})

test("typed values reach the server as typed, except references [cli:add:literal]", async () => {
  const { svc, servers } = fresh()
  const lines = [
    [
      "add",
      "a",
      "-e",
      "PASS=s3c$$ret",
      "-e",
      "HOME2=${HOME}",
      "-e",
      "X=$X",
      "-e",
      "Y=p$Y",
      "--",
      "sh",
      "-c",
      "echo $A $$ $1",
    ],
    ["add", "b", "https://b.example/mcp", "-H", "Authorization: Bearer ${B:-b}", "-H", "X-Key: a$b$${c}"],
    ["add-json", "c", '{"command":"x","env":{"PASS":"s3c$HOME$$x","KEY":"$KEY"}}'],
    ["add-json", "d", '{"command":"x","env":["PASS=a$b","KEY=$KEY"]}'],
    ["add", "e", "x"],
    ["edit", "e", "-e", "PASS=a$b", "--arg", "$$"],
  ]
  const notes: string[] = []
  for (const line of lines) {
    const { code, stderr } = await svc(["mcp", ...line])
    expect(code).toBe(0)
    notes.push(...stderr.split("\n").filter((text) => text.startsWith("note:")))
  }
  expect(servers()).toEqual({
    a: {
      command: "sh",
      args: ["-c", "echo $$A $$$ $1"],
      env: { PASS: "s3c$$$$ret", HOME2: "${HOME}", X: "$X", Y: "p$$Y" },
    },
    b: { url: "https://b.example/mcp", headers: { Authorization: "Bearer ${B:-b}", "X-Key": "a$$b$${c}" } },
    c: { command: "x", env: { PASS: "s3c$$HOME$$$$x", KEY: "$KEY" } },
    d: { command: "x", env: ["PASS=a$$b", "KEY=$KEY"] },
    e: { command: "x", args: ["$$$"], env: { PASS: "a$$b" } },
  })
  expect(notes).toContain("note: env.HOME2 refers to the variable HOME")
  expect(notes).toContain("note: headers.Authorization refers to the variable B")
  expect(notes).toContain("note: the $ in env.PASS is kept as text; ${NAME} would refer to the variable NAME")
  expect(notes.join()).not.toContain("s3c")
})

test("edit takes the flags of add and keeps the rest [cli:edit:flags]", async () => {
  const { svc, servers } = fresh()
  const edit = async (...line: string[]) => expect(await svc(["mcp", "edit", ...line])).toMatchObject({ code: 0 })
  const json = { command: "npx", args: ["a"], env: ["A=1", "B", "C=3"], tags: ["x"], cwd: "/" }
  await svc(["mcp", "add-json", "it", JSON.stringify(json)])
  await edit("it", "-e", "A=2", "-e", "D=4", "--unset-env", "C", "--arg=-y", "--arg", "b", "--tag", "p,q")
  expect(servers().it).toEqual({
    command: "npx",
    args: ["-y", "b"],
    env: ["B", "A=2", "D=4"],
    tags: ["p", "q"],
    cwd: "/",
  })
  await edit("it", '{"cwd":null}', "--rename", "uvx", "--", "uvx", "thing", "--x")
  expect(servers().uvx).toMatchObject({ command: "uvx", args: ["thing", "--x"] })
  await edit("uvx", "--", "uvx")
  expect(servers().uvx).toEqual({ command: "uvx", env: ["B", "A=2", "D=4"], tags: ["p", "q"] })
  await svc(["mcp", "add", "far", "https://far.example/mcp", "-H", "X-Key: a", "-H", "Other: b"])
  await edit("far", "--url", "near.example/mcp", "-H", "x-key: c", "--unset-header", "other")
  expect(servers().far).toEqual({ url: "https://near.example/mcp", headers: { "X-Key": "c" } })
  expect(await svc(["mcp", "edit", "far", "npx"])).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("svc mcp edit NAME -- COMMAND ARGS…"),
  })
})

test("add-json names the keys that it leaves out, and refuses JSON that is not a server [cli:add:json]", async () => {
  const { svc, servers } = fresh()
  const config = { servers: { a: { command: "bun", foo: 1 }, b: { url: "https://b.example/mcp" } } }
  expect(await svc(["mcp", "add-json", JSON.stringify(config)])).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^added a, b \(/),
    stderr: "warning: a: foo is not imported\n",
  })
  expect(servers()).toEqual({ a: { command: "bun" }, b: { url: "https://b.example/mcp" } })
  const keys = { comand: "y", requestTimout: 5, timeout: 5, enabledTools: [1] }
  expect((await svc(["mcp", "add-json", "hints", JSON.stringify({ command: "bun", ...keys })])).stderr).toBe(
    [
      "warning: hints: comand is not imported; did you mean command?",
      "warning: hints: requestTimout is not imported; did you mean requestTimeout?",
      "warning: hints: timeout is not imported; requestTimeout and connectionTimeout are in milliseconds",
      "warning: hints: enabledTools is not imported\n",
    ].join("\n"),
  )
  for (const [given, message] of [
    [['{"command":"x"}'], "the JSON has no name for the server"],
    [["n", JSON.stringify(config)], "the JSON has several servers, each with its own name"],
    [['{"hello":1}'], "the JSON has no server"],
    [["n", '{"command":1}'], "n: command: "],
    [["n", "{"], "not valid JSON"],
  ] as const) {
    const { code, stderr } = await svc(["mcp", "add-json", ...given])
    expect([code, stderr]).toEqual([64, expect.stringContaining(message)])
  }
})

test("a host is added after its card's headers are shown, and refused if a card must not set them [cards:read]", async () => {
  const folder = freshFolder()
  const headers: Record<string, object> = {
    "/a/server-card": { name: "X-Key", value: "${HOME}", isRequired: true },
    "/b/server-card": { name: "Host", value: "evil" },
  }
  await using server = Object.assign(
    Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch({ url }) {
        const { origin, pathname } = new URL(url)
        const header = headers[pathname]
        const remotes = [{ type: "streamable-http", url: `${origin}/real/mcp`, headers: [header] }]
        return header === undefined
          ? new Response("", { status: 404 })
          : Response.json({ name: "com.x/y", version: "1", description: "d", remotes })
      },
    }),
    { [Symbol.asyncDispose]: () => server.stop(true) },
  )
  const host = `http://127.0.0.1:${server.port}`
  const add = (path: string) => commandsIn(folder)("mcp", "add", "one", "--url", `${host}${path}`)
  const added = await add("/a")
  expect([added.code, added.stderr]).toEqual([
    0,
    `found com.x/y (com.x/y) by the server card at ${host}/a/server-card: ${host}/real/mcp\n  with the header X-Key: \${HOME}\n`,
  ])
  const refused = await add("/b")
  expect([refused.code, refused.stderr]).toEqual([
    64,
    "svc: com.x/y cannot be used: it sets the header Host, which only svc and HTTP may set\n",
  ])
})
