import { describe, expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import { type HostEnvironment, plan } from "../../src/config/plan.ts"
import { type RemoteLaunch, type ServerSpec, type StdioLaunch, slugOf } from "../../src/config/server-spec.ts"
import { ConfigError } from "../../src/lib/errors.ts"

const parent = {
  PATH: "/bin",
  HOME: "/home/u",
  SVC_PORT: "1",
  TOKEN: "from-parent",
  OTHER: "other",
  APP_ONE: "1",
  APP_TWO: "2",
}
const world: HostEnvironment = { parent, dotenv: {}, platform: "linux", home: "/home/u", folder: "/etc/svc" }

const planned = (document: unknown, more: Partial<HostEnvironment> = {}) =>
  plan(parseDocument(typeof document === "string" ? document : JSON.stringify(document, null, 2), "mcp.json"), {
    ...world,
    ...more,
  })

function single(document: unknown, more: Partial<HostEnvironment> = {}): ServerSpec {
  const { specs, issues } = planned(document, more)
  expect(issues.filter(({ severity }) => severity === "error")).toEqual([])
  expect(specs).toHaveLength(1)
  return specs[0] as ServerSpec
}

const child = (document: unknown, more: Partial<HostEnvironment> = {}) => single(document, more).launch as StdioLaunch
const remote = (document: unknown, more: Partial<HostEnvironment> = {}) => single(document, more).launch as RemoteLaunch
const server = (more: object, defaults?: object) => ({
  serverDefaults: defaults,
  mcpServers: { a: { command: "x", ...more } },
})
const web = (more: object, defaults?: object) => ({
  serverDefaults: defaults,
  mcpServers: { a: { url: "http://h/mcp", ...more } },
})
const problems = (document: unknown) =>
  planned(document).issues.map(({ severity, line, message }) => `${severity} ${line} ${message}`)

describe("the file", () => {
  test("comments, trailing commas and a byte-order mark are accepted [config:file:jsonc]", () => {
    expect(
      child('\ufeff{ // mine\n "mcpServers": { "a": { "command": "x", /* no */ "args": ["1",], }, }, }').args,
    ).toEqual(["1"])
  })

  test.each([
    ['{\n  "mcpServers": {\n    "a" {}\n  }\n}', 3, 9, "colon"],
    ["{", 1, 2, "closing brace"],
    ['{ "a": nope }', 1, 8, "word"],
    ["[]", 1, 1, "object"],
  ])("what is not JSON is refused with line and column: %p", (text, line, column, says) => {
    try {
      planned(text)
      expect.unreachable()
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError)
      const [issue] = (error as ConfigError).issues
      expect([issue?.line, issue?.column]).toEqual([line, column])
      expect(issue?.message).toContain(says)
    }
  })

  test("an unknown key is a warning with its line and the nearest known one [config:key:unknown]", () => {
    expect(problems({ mcpServer: {}, mcpServers: { a: { command: "x", comand: 1 } } })).toEqual([
      'warning 2 unknown key "mcpServer" is ignored; did you mean "mcpServers"?',
      'warning 6 unknown key "comand" is ignored; did you mean "command"?',
    ])
  })

  test("a key without effect on a kind of server is a warning, unless its value is empty", () => {
    expect(
      problems({
        mcpServers: {
          near: { command: "x", headers: { A: "b" }, oauth: {} },
          far: { url: "http://h/", env: { A: "b" }, restartOnExit: true, inheritParentEnv: false, args: [] },
        },
      }),
    ).toEqual([
      "warning 5 headers has no effect on this kind of server and is ignored",
      "warning 12 env has no effect on this kind of server and is ignored",
      "warning 15 restartOnExit has no effect on this kind of server and is ignored",
    ])
  })

  test("a command beside a url is a warning that names the one that is ignored", () => {
    const [command, url] = ["x", "http://h/"]
    expect(
      problems({ mcpServers: { a: { command, url }, b: { type: "http", command, serverUrl: url, disabled: true } } }),
    ).toEqual([
      "warning 5 url is ignored: this server has both a command and a url, and only the command is used; remove one of them",
      "warning 9 command is ignored: this server has both a command and a url, and only the url is used; remove one of them",
    ])
  })

  test("a name with characters that cannot be seen, or that turn text around, is rejected", () => {
    for (const char of ["\u202e", "\u200b", "\u2800", "\u0007", "\u00a0", "\u{e0041}", "\ue000"])
      expect(planned({ mcpServers: { [`a${char}b`]: { command: "x" } } })).toMatchObject({
        specs: [],
        issues: [{ message: expect.stringContaining("must not contain invisible, blank or control characters") }],
      })
    expect(planned({ mcpServers: { "Büro 数据 🚀": { command: "x" } } }).issues).toEqual([])
  })

  test("a string for disabled that is neither true nor false is a warning", () => {
    const disabled = "{{not project.custom.usesDb}}"
    expect(problems(server({ disabled: "maybe" }))).toEqual([
      expect.stringMatching(/^warning 5 disabled is neither true nor/),
    ])
    for (const word of ["Yes", " off ", "", "0"]) expect(problems(server({ disabled: word }))).toEqual([])
    expect(problems({ mcpTemplates: { t: { command: "x", disabled } } })).toEqual([])
  })

  test("a timeout of 0 is rejected, a delay of 0 is not", () => {
    expect(planned(server({ restartDelay: 0 })).issues).toEqual([])
    for (const key of ["timeout", "connectionTimeout", "requestTimeout"])
      expect(planned(server({ [key]: 0 }))).toMatchObject({ specs: [], issues: [{ path: ["mcpServers", "a", key] }] })
  })

  test("a server with a wrong value is not loaded, the others run, and the issue does not show the value [config:server:wrong]", () => {
    const { specs, issues } = planned({
      mcpServers: { bad: { command: "x", args: "hunter2" }, good: { command: "y" } },
    })
    expect(specs.map(({ id }) => id)).toEqual(["good"])
    expect(issues).toMatchObject([{ severity: "error", server: "bad", line: 5, path: ["mcpServers", "bad", "args"] }])
    expect(JSON.stringify(issues)).not.toContain("hunter2")
  })

  test("a duplicate key is a warning", () => {
    expect(problems('{"mcpServers": {"a": {"command": "x", "command": "y"}}}')).toEqual([
      'warning 1 duplicate key "command"; the last one wins',
    ])
  })

  test("a server named __proto__ is an ordinary server", () => {
    expect(planned('{"mcpServers": {"__proto__": {"command": "x"}}}').specs.map(({ id }) => id)).toEqual(["__proto__"])
    expect(({} as { command?: string }).command).toBeUndefined()
  })
})

describe("a server", () => {
  test("is stdio with a command and http with a url [config:server:type]", () => {
    expect(child(server({})).transport).toBe("stdio")
    expect(remote(web({})).transport).toBe("http")
    expect(problems({ mcpServers: { a: {} } })).toEqual(["error 3 a is not loaded: it needs a command or a url"])
  })

  test("accepts the spellings of other applications [config:server:aliases]", () => {
    for (const type of ["streamableHttp", "streamable-http", "streamable_http", "streamablehttp"])
      expect(remote(web({ type })).transport).toBe("streamableHttp")
    expect(child({ servers: { a: { type: "stdio", command: "x" } } }).command).toBe("x")
    expect(remote({ mcpServers: { a: { serverUrl: "http://h/x" } } }).url).toBe("http://h/x")
    expect(remote({ mcpServers: { a: { type: "http", httpUrl: "http://h/y" } } }).url).toBe("http://h/y")
  })

  test("is not started when it is disabled [config:server:disabled]", () => {
    for (const disabled of [true, "true", "1", "Yes", "ON"])
      expect(planned(server({ disabled }))).toMatchObject({ specs: [], disabled: ["a"] })
    for (const disabled of [false, "false", "", "no"]) expect(planned(server({ disabled })).specs).toHaveLength(1)
  })

  test("with the slug of another server is not loaded [config:server:name]", () => {
    const { specs, issues } = planned({
      mcpServers: { "a b": { command: "x" }, "a/b": { command: "y" }, a_svc_b: { command: "z" } },
    })
    expect(specs.map(({ id, slug }) => [id, slug])).toEqual([["a b", "a-b"]])
    expect(issues.map(({ server }) => server)).toEqual(["a/b", "a_svc_b"])
  })

  test("keeps nothing but letters, digits, _ and - of its name in names of tools [names:slug]", () => {
    const names = ["com.example", "a_b", "日本", "中国", "🚀", "--", "Поиск x"]
    const { specs, issues } = planned({ mcpServers: Object.fromEntries(names.map((name) => [name, { command: "x" }])) })
    expect(issues).toEqual([])
    expect(specs.map(({ slug }) => slug)).toEqual([
      "com-example",
      "a_b",
      expect.stringMatching(/^server-[0-9a-f]{6}$/),
      expect.stringMatching(/^server-[0-9a-f]{6}$/),
      expect.stringMatching(/^server-[0-9a-f]{6}$/),
      "--",
      "------x",
    ])
    for (const { slug } of specs) expect(slugOf(slug)).toBe(slug)
  })

  test("whose tools could be taken for those of another server is not loaded, or warned of [names:taken]", () => {
    const of = (...names: string[]) => {
      const { specs, issues } = planned({
        mcpServers: Object.fromEntries(names.map((name) => [name, { command: "x" }])),
      })
      return [specs.map(({ name }) => name), issues.map(({ severity, server }) => [severity, server])]
    }
    expect(of("a", "a_svc", "svc_a", "svc", "a_sv")).toEqual([
      ["a", "svc", "a_sv"],
      [
        ["error", "a_svc"],
        ["error", "svc_a"],
      ],
    ])
    expect(of("a.b", "a-b")).toEqual([["a.b"], [["error", "a-b"]]])
    expect(of("a.b", "a_b")).toEqual([["a.b", "a_b"], [["warning", "a_b"]]])
    expect(of("a_b", "a.b")).toEqual([["a_b", "a.b"], [["warning", "a.b"]]])
    expect(of("a_b", "a-b")).toEqual([["a_b", "a-b"], []])
  })

  test("is shadowed by a template of its name [template:precedence]", () => {
    expect(planned({ mcpServers: { a: { command: "x" } }, mcpTemplates: { a: { command: "y" } } }).specs).toEqual([])
  })

  test("rejects empty tool names and blank descriptions [config:overrides:blank]", () => {
    expect(problems(server({ toolDescriptionOverrides: { "": "text" } }))).toEqual([
      "error 6 a is not loaded: mcpServers.a.toolDescriptionOverrides.: the name of a tool must not be empty",
    ])
    for (const toolDescriptionOverrides of [{ " ": "text" }, { tool: " \n" }])
      expect(planned(server({ toolDescriptionOverrides })).specs).toEqual([])
    expect(single(server({ toolDescriptionOverrides: { tool: "text" } })).tuning.toolDescriptionOverrides).toEqual({
      tool: "text",
    })
  })

  test("overrides titles, annotations, search hints and loading of tools, and nothing else of them [tool:overrides]", () => {
    const toolOverrides = {
      one: { title: "One", annotations: { readOnlyHint: true }, searchHint: "first", alwaysLoad: false },
    }
    expect(single(server({ toolOverrides, alwaysLoad: true, searchHint: "numbers" })).tuning).toMatchObject({
      toolOverrides,
      alwaysLoad: true,
      searchHint: "numbers",
    })
    for (const wrong of [
      { toolOverrides: { " ": {} } },
      { toolOverrides: { one: { title: " " } } },
      { toolOverrides: { one: { description: "text" } } },
      { toolOverrides: { one: { annotations: { readOnly: true } } } },
      { toolOverrides: { one: { annotations: { readOnlyHint: "yes" } } } },
      { searchHint: "" },
      { alwaysLoad: "yes" },
    ])
      expect([wrong, planned(server(wrong)).specs]).toEqual([wrong, []])
  })

  test("with unusable oauth settings is not loaded; a private key may have line breaks", () => {
    const machine = { grantType: "client_credentials" }
    expect(problems(web({ oauth: machine }))).toEqual([
      expect.stringContaining("oauth.grantType client_credentials needs oauth.clientId"),
    ])
    expect(problems(web({ oauth: { tokenEndpointAuthMethod: "magic" } }))).toHaveLength(1)
    expect(problems(web({ oauth: { clientId: "a\r\nb" } }))).toHaveLength(1)
    const pem = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----"
    const { oauth } = remote(web({ oauth: { ...machine, clientId: "me", clientSecret: pem } }))
    expect(oauth?.clientSecret).toBe(pem)
  })

  test("with oauth settings that do not fit its grant is not loaded [oauth:workload] [oauth:enterprise]", () => {
    const wrong = (oauth: Record<string, unknown>) => problems(web({ oauth })).map((one) => one.split(": ").at(-1))
    const workload = { grantType: "jwt-bearer" }
    expect(wrong(workload)).toEqual(["oauth.grantType jwt-bearer needs oauth.assertion or oauth.assertionFile"])
    expect(wrong({ ...workload, assertion: "a.b.c", assertionFile: "b" })).toEqual([
      "set one of oauth.assertion or oauth.assertionFile, not both",
    ])
    expect(wrong({ assertionFile: "b" })).toEqual(["oauth.assertionFile needs oauth.grantType jwt-bearer"])
    expect(wrong({ ...workload, assertion: "a.b.c" })).toEqual([])
    expect(wrong({ ...workload, assertion: "a" })).toEqual(["oauth.assertion must be a JWT"])
    const enterprise = {
      grantType: "token-exchange",
      clientId: "a",
      identityProvider: "https://idp.example",
      identityProviderClientId: "b",
      subjectTokenFile: "c",
    }
    expect(wrong(enterprise)).toEqual([])
    expect(wrong({ ...enterprise, identityProvider: "idp.example" })).toEqual([
      "oauth.identityProvider must be an http or https address",
    ])
    expect(wrong({ ...enterprise, identityProvider: "http://[::1]:8080/idp" })).toEqual([])
    expect(problems(web({ oauth: { ...enterprise, identityProvider: "http://idp.example" } }))).toEqual([
      expect.stringContaining("oauth.identityProvider must use https unless it runs on this machine"),
    ])
    const { subjectTokenFile: _file, ...inline } = enterprise
    expect(wrong({ ...inline, subjectToken: "x" })).toEqual(["oauth.subjectToken must be a JWT"])
    const machine = { grantType: "client_credentials", clientId: "me", tokenEndpointAuthMethod: "private_key_jwt" }
    expect(wrong({ ...machine, clientSecret: "hunter2" })).toEqual([
      "oauth.clientSecret must be a private key in PEM format for private_key_jwt",
    ])
    expect(wrong(machine)).toEqual(["oauth.tokenEndpointAuthMethod private_key_jwt needs oauth.clientSecret"])
    for (const name of ["clientId", "identityProvider", "identityProviderClientId", "subjectTokenFile"])
      expect(wrong({ ...enterprise, [name]: undefined })).toEqual([
        expect.stringContaining(`oauth.grantType token-exchange needs oauth.${name.replace("File", "")}`),
      ])
  })

  test("reads the files of oauth beside the configuration file", () => {
    const { oauth } = remote(web({ oauth: { grantType: "jwt-bearer", assertionFile: "token" } }))
    expect(oauth?.assertionFile).toBe("/etc/svc/token")
  })

  test("with a time that is not in milliseconds is not loaded, and its other mistakes are told too [config:time]", () => {
    const wrong = (timeout: unknown) => problems(server({ timeout }))
    const why = "error 5 a is not loaded: mcpServers.a.timeout: must be a number of milliseconds"
    expect(wrong("5 minutes")).toEqual([`${why}: 300000, without quotes`])
    expect(wrong("1500ms")).toEqual([`${why}: 1500, without quotes`])
    expect(wrong("30s")).toEqual([`${why}: 30000, without quotes`])
    expect(wrong("300")).toEqual([`${why}: 300, without quotes`])
    expect(wrong("2 days")).toEqual([`${why}: 172800000, without quotes`])
    for (const other of ["$SECRET", "5 parsecs", "3 months"]) expect(wrong(other)).toEqual([why])
    expect(problems(server({ timeout: "soon", envFiltr: [] }))).toEqual([
      expect.stringContaining('unknown key "envFiltr" is ignored; did you mean "envFilter"?'),
      expect.stringContaining("a is not loaded"),
    ])
  })

  test("names the variable of env whose value cannot be one, and a name that no setting can have", () => {
    const wrong = "error 5 a is not loaded: mcpServers.a.env"
    expect(problems(server({ env: { A: "x", B: null } }))).toEqual([
      `${wrong}: B must be a string, a number or a boolean, not null`,
    ])
    expect(problems(server({ env: { A: { b: 1 } } }))).toEqual([
      `${wrong}: A must be a string, a number or a boolean, not an object`,
    ])
    expect(problems(server({ env: ["A=1", 7] }))).toEqual([`${wrong}: entry 2 must be a string, not a number`])
    expect(problems(server({ toolDescriptionOverrides: JSON.parse('{"__proto__": "x", "b": "y"}') }))).toEqual([
      expect.stringMatching(/^warning \d+ toolDescriptionOverrides: svc ignores the name "__proto__"$/),
    ])
  })

  test("names the nearest known oauth field [config:oauth:unknown]", () => {
    expect(problems(web({ oauth: { clientID: "x" } }))).toEqual([
      'error 5 a is not loaded: mcpServers.a.oauth: unknown key "clientID"; did you mean "clientId"?',
    ])
  })

  test("is loaded with an oauth member of another application, which is named [config:oauth:unknown]", () => {
    const document = web({ oauth: { clientId: "x", callbackPort: 3118 } })
    expect(problems(document)).toEqual([expect.stringContaining('unknown key "callbackPort" is ignored')])
    expect(remote(document).oauth).toEqual({ clientId: "x" })
  })

  test("prefers the specific timeout to the deprecated one [timeout:precedence:connection] [timeout:precedence:request]", () => {
    const tuning = (more: object) => {
      const { connectionTimeout, requestTimeout } = single(server(more)).tuning
      return [connectionTimeout, requestTimeout]
    }
    expect(tuning({ timeout: 7 })).toEqual([7, 7])
    expect(tuning({ timeout: 7, connectionTimeout: 1 })).toEqual([1, 7])
    expect(tuning({ timeout: 7, requestTimeout: 2 })).toEqual([7, 2])
  })

  test("is restarted at most five times, after a second first, if it is supervised [supervise:defaults]", () => {
    expect(single(server({})).tuning.restart).toEqual({ kind: "never", limit: 5, delay: 1000 })
    expect(single(server({ restartOnExit: true, maxRestarts: 0 })).tuning.restart).toEqual({
      kind: "supervised",
      limit: 0,
      delay: 1000,
    })
    expect(single(web({ restartOnExit: true })).tuning.restart.kind).toBe("reconnect")
  })

  test("in both servers and mcpServers is taken from mcpServers", () => {
    const { specs, issues } = planned({ servers: { a: { command: "x" } }, mcpServers: { a: { command: "y" } } })
    expect(specs.map(({ launch }) => "command" in launch && launch.command)).toEqual(["y"])
    expect(issues).toMatchObject([{ severity: "warning", line: 3 }])
  })

  test("with a wrong value of several forms gets an issue that names the forms", () => {
    for (const [key, says] of [
      ["env", "entry 1 must be a string"],
      ["stderr", "pipe, overlapped, inherit"],
      ["disabled", "true, false or a string"],
    ] as const)
      expect(problems(server({ [key]: [7] }))[0]).toContain(says)
  })

  test("may have line breaks in arguments and variables, as scripts and keys do", () => {
    const launch = child(server({ args: ["-c", "a\nb"], env: { PEM: "a\r\n\tb" } }))
    expect([launch.args[1], launch.env.PEM]).toEqual(["a\nb", "a\r\n\tb"])
  })

  test("named . or .. is not loaded, because URLs drop these segments", () => {
    expect(
      planned({ mcpServers: { ".": { command: "x" }, "..": { command: "x" }, "...": { command: "x" } } }).specs,
    ).toHaveLength(1)
  })

  test("resolves cwd against the folder of the file or the home", () => {
    const cwd = (text: string, more?: Partial<HostEnvironment>) => child(server({ cwd: text }), more).cwd
    expect([cwd("a/b"), cwd("/a"), cwd("~"), cwd("~/a")]).toEqual(["/etc/svc/a/b", "/a", "/home/u", "/home/u/a"])
    const windows = { platform: "win32", home: "C:\\U", folder: "C:\\S", parent: {} }
    expect([cwd("a", windows), cwd("D:\\a", windows), cwd("~\\a", windows)]).toEqual(["C:\\S\\a", "D:\\a", "C:\\U\\a"])
  })

  test("may not smuggle a line break into a header or a NUL into its environment", () => {
    expect(planned(web({ headers: { x: "a\r\nevil: 1" } })).specs).toEqual([])
    expect(planned(web({ headers: { "x y": "a" } })).specs).toEqual([])
    expect(planned(web({ headers: { x: "€" } }))).toMatchObject({
      specs: [],
      issues: [{ message: expect.stringContaining("headers.x contains a character outside Latin-1") }],
    })
    expect(planned(server({ env: { A: "a\u001b[2J" } })).specs).toEqual([])
    expect(planned(server({ args: ["a\0b"] })).specs).toEqual([])
    expect(planned(server({ env: { A: "a\0b" } })).specs).toEqual([])
    expect(planned(server({ env: { "A=B": "x" } })).specs).toEqual([])
  })
})

describe("serverDefaults", () => {
  test("env objects merge and arrays are replaced [defaults:env:merge]", () => {
    expect(child(server({ env: { A: "1", B: "2" } }, { env: { B: "9", C: "3" } })).env).toMatchObject({
      A: "1",
      B: "2",
      C: "3",
    })
    expect(child(server({ env: ["A=1"] }, { env: ["C=3"] })).env).not.toHaveProperty("C")
    expect(child(server({}, { env: ["C=3"] })).env).toMatchObject({ C: "3" })
  })

  test("envFilter entries of the server follow and decide; of two equal ones the first stays [defaults:envFilter] [env:child:repeated]", () => {
    expect(child(server({ envFilter: ["APP_ONE"] }, { envFilter: ["APP_*", "!APP_ONE"] })).env).toMatchObject({
      APP_ONE: "1",
      APP_TWO: "2",
    })
    const repeated = child(server({ envFilter: ["APP_*"] }, { envFilter: ["APP_*", "!APP_ONE"] })).env
    expect(repeated).toEqual({ APP_TWO: "2", HOME: "/home/u", PATH: "/bin" })
    expect(child(server({ envFilter: ["APP_*", "!APP_ONE", "APP_*"] })).env).toEqual(repeated)
    const windows = { platform: "win32", parent: { APP_ONE: "1", APP_TWO: "2" } }
    expect(child(server({ envFilter: ["app_*"] }, { envFilter: ["APP_*", "!APP_ONE"] }), windows).env).toEqual({
      APP_TWO: "2",
    })
    expect(child(server({ envFilter: ["!APP_TWO"] }, { envFilter: ["APP_*"] })).env).not.toHaveProperty("APP_TWO")
  })

  test("oauth and headers are replaced, not merged [defaults:replace]", () => {
    const { headers, oauth } = remote(
      web({ headers: { a: "1" }, oauth: { clientId: "me" } }, { headers: { b: "2" }, oauth: { scopes: ["x"] } }),
    )
    expect([headers, oauth]).toEqual([{ a: "1" }, { clientId: "me" }])
    expect(remote(web({}, { headers: { b: "2" } })).headers).toEqual({ b: "2" })
  })

  test("other keys are inherited only if they are missing [defaults:missing]", () => {
    const defaults = {
      timeout: 1,
      connectionTimeout: 2,
      requestTimeout: 3,
      restartOnExit: true,
      maxRestarts: 9,
      restartDelay: 10,
    }
    expect(single(server({}, defaults)).tuning).toMatchObject({
      connectionTimeout: 2,
      requestTimeout: 3,
      restart: { kind: "supervised", limit: 9, delay: 10 },
    })
    expect(single(server({ requestTimeout: 8, restartOnExit: false }, defaults)).tuning).toMatchObject({
      requestTimeout: 8,
      restart: { kind: "never" },
    })
    expect(child(server({ inheritParentEnv: false }, { inheritParentEnv: true })).env).not.toHaveProperty("OTHER")
    expect(child(server({}, { inheritParentEnv: true })).env).toHaveProperty("OTHER")
  })

  test("keys of the other transport are ignored [defaults:stdio] [defaults:restart]", () => {
    const defaults = { headers: { b: "$UNSET" }, oauth: { clientId: "$UNSET" } }
    expect(child(server({}, defaults)).transport).toBe("stdio")
    expect(
      single(
        web(
          {},
          { env: { A: "$UNSET" }, inheritParentEnv: true, envFilter: ["X"], restartOnExit: true, maxRestarts: 1 },
        ),
      ).tuning.restart,
    ).toEqual({
      kind: "reconnect",
      limit: 5,
      delay: 1000,
    })
  })

  test("a wrong default rejects the whole document", () => {
    expect(() => planned(server({}, { timeout: "soon" }))).toThrow(ConfigError)
  })
})

describe("references", () => {
  test("are replaced in these places [env:substitute:places] [env:substitute:forms] [env:substitute:foreign]", () => {
    const launch = child(
      server({
        command: "$TOKEN",
        args: ["${TOKEN}", "$$TOKEN", "${NONE:-d}", "a$", "${env:TOKEN}"],
        cwd: "$OTHER",
        env: { V: "x${OTHER}y" },
        tags: ["$TOKEN"],
      }),
    )
    expect(launch).toMatchObject({
      command: "from-parent",
      args: ["from-parent", "$TOKEN", "d", "a$", "from-parent"],
      cwd: "/etc/svc/other",
    })
    expect(launch.env.V).toBe("xothery")
    const { url, headers, oauth } = remote(
      web({
        url: "http://$OTHER/mcp",
        headers: { x: "Bearer $TOKEN" },
        oauth: { clientSecret: "$TOKEN", scopes: ["$OTHER"] },
      }),
    )
    expect([url, headers.x, oauth]).toEqual([
      "http://other/mcp",
      "Bearer from-parent",
      { clientSecret: "from-parent", scopes: ["other"] },
    ])
    expect(single(server({ tags: ["$TOKEN"] })).tuning.tags).toEqual(["$TOKEN"])
  })

  test("to an unset variable keep the server from loading and are named [env:substitute:missing]", () => {
    expect(problems(server({ env: { A: "$NOWHERE" } }))).toEqual([
      "error 3 a is not loaded: env.A refers to NOWHERE, which is not set in the environment or in .env",
    ])
    expect(problems(server({ args: ["--key=${input:key}", "$${input:key}"] }))).toEqual([
      "error 3 a is not loaded: args[0] refers to input:key, which only VS Code knows; write a variable such as ${API_KEY} instead, and set it in .env",
    ])
  })

  test("find a name in the server's own env [env:substitute:own]", () => {
    const { args, env } = child(
      server({
        args: ["--header", "Authorization: Bearer ${PAT}", "${OTHER}"],
        env: {
          PAT: "key-${TOKEN}",
          OTHER: "own",
          PATH: "/x:${PATH}",
          A: "${B}",
          B: "b",
          LOOP: "${LOOP2:-end}",
          LOOP2: "$LOOP",
        },
      }),
    )
    expect(args).toEqual(["--header", "Authorization: Bearer key-from-parent", "own"])
    expect(env).toMatchObject({ PATH: "/x:/bin", A: "b", LOOP: "end" })
    expect(remote(web({ env: { PAT: "p" }, headers: { authorization: "Bearer ${PAT}" } })).headers).toEqual({
      authorization: "Bearer p",
    })
    expect(problems(server({ args: ["$X"], env: { X: "${Y}", Y: "${X}" } }))).toContainEqual(
      expect.stringContaining("args[0] refers to X, which is not set"),
    )
  })

  test("that are none are named with their place [env:substitute:lookalike]", () => {
    expect(problems(server({ args: ["ok", "${X:?}"], env: { K: "${{ secrets.X }}" }, tags: ["${X-d}"] }))).toEqual([
      expect.stringMatching(/^warning \d+ args\[1\]: "\$\{X:\?\}" is no reference/),
      expect.stringMatching(/^warning \d+ env\.K: "\$\{\{ secrets\.X \}\}" is no reference/),
    ])
  })

  test("with a scheme have the value of their source, which is secret; without a source they stay as written", () => {
    const document = server({ args: ["${file:/run/k}"], env: { A: "${keychain:a}", B: "${OFF:-${cmd:op read x}}" } })
    expect(child(document)).toMatchObject({
      args: ["${file:/run/k}"],
      env: { A: "${keychain:a}", B: "${cmd:op read x}" },
    })
    const known: Readonly<Record<string, string>> = {
      "file:/run/k": "from a file",
      "keychain:a": "from the keychain",
      "cmd:op read x": "from a command",
    }
    const references = (reference: string) => ({ value: known[reference] ?? "" })
    const { launch, secrets } = single(document, { references })
    expect(launch).toMatchObject({ args: ["from a file"], env: { A: "from the keychain", B: "from a command" } })
    expect([...secrets].sort()).toEqual(Object.values(known).sort())
    const failing = planned(document, { references: () => ({ problem: "which does not exist" }) })
    expect(failing.specs).toEqual([])
    expect(failing.issues.map(({ message }) => message)).toContain(
      "a is not loaded: args[0] refers to ${file:/run/k}, which does not exist",
    )
  })

  test("prefer the value of the parent to that of .env [env:dotenv:parent-wins]", () => {
    const { env } = child(server({ env: { A: "$TOKEN", B: "$LOCAL" } }), {
      dotenv: { TOKEN: "from-file", LOCAL: "local" },
    })
    expect(env).toMatchObject({ A: "from-parent", B: "local" })
  })

  test("do not find inherited members of objects", () => {
    expect(planned(server({ args: ["$constructor"] })).specs).toEqual([])
  })

  test("ignore case on Windows", () => {
    expect(child(server({ args: ["$PATH"] }), { platform: "win32", parent: { Path: "C:\\" } }).args).toEqual(["C:\\"])
  })

  test("are not needed to find credentials in URLs and headers", () => {
    const secrets = (document: unknown, more?: Partial<HostEnvironment>) => [...single(document, more).secrets].sort()
    expect(secrets(web({ url: "https://user:p%40ssword@h/?api_key=abcdef123&page=second" }))).toEqual([
      "abcdef123",
      "p%40ssword",
      "p@ssword",
    ])
    expect(secrets(web({ url: "https://ghp_token@h/%zz" }))).toEqual(["ghp_token"])
    expect(secrets(web({ headers: { authorization: "Bearer literal" } }))).toEqual(["Bearer literal", "literal"])
    const basic = `basic ${Buffer.from("me:pass:word").toString("base64")}`
    expect(secrets(web({ headers: { authorization: basic } }))).toEqual([
      basic.slice("basic ".length),
      basic,
      "me:pass:word",
      "pass:word",
    ])
    const inherited = {
      parent: { GITHUB_TOKEN: "inherited", GIT_AUTHOR_NAME: "Some Body" },
      dotenv: { LOCAL: "of-the-file" },
    }
    expect(secrets(server({ envFilter: ["GIT*", "LOCAL"] }), inherited)).toEqual(["inherited", "of-the-file"])
    expect(secrets(server({ env: { API_KEY: "short" } }))).toEqual([])
  })

  test("are not needed to find keys among arguments, and by their form", () => {
    const args = ["--api-key", "canary-of-a-flag", "--token=canary-in-one", "--name", "plain-value", "${SET}"]
    const env = { WORDS: "github_pat_11AAAAAAA0Zk3vQ9xT7bLm2RwY8nHc5JdP4sGf6AeU", PLAIN: "plain-value" }
    expect(single(server({ args, env }), { parent: { SET: "/usr/bin" } }).secrets.toSorted()).toEqual([
      "canary-in-one",
      "canary-of-a-flag",
      env.WORDS,
    ])
  })

  test("have defaults that are secrets where a value would be one", () => {
    const args = ["--token=${T:-canary-in-one}", "--password", "${P:-canary-of-a-flag}", "--dir=${D:-/plain/path}"]
    const env = { SETTINGS: '${S:-{"api_key":"canary-in-json"}}', PLAIN: "${X:-plain-value}" }
    expect(single(server({ args, env })).secrets.toSorted()).toEqual([
      "canary-in-json",
      "canary-in-one",
      "canary-of-a-flag",
    ])
    expect(single(server({ args, env }), { parent: { T: "given-token" } }).secrets).toContain("given-token")
    const url = "https://hook.eu1.make.com/mcp/server/7/t/${K:-canary-of-a-path-1}/sse"
    expect(single(web({ url })).secrets).toEqual(["canary-of-a-path-1"])
  })

  test("are not needed if the name of a variable is a secret's", () => {
    const named = (name: string) => single(server({ env: { [name]: "written-out" } })).secrets.length > 0
    for (const name of ["PASS", "SMTP_PASS", "DB_PASS_FILE", "GITHUB_PAT", "MYSQL_PWD", "BEARER", "SLACK_WEBHOOK_URL"])
      expect([name, named(name)]).toEqual([name, true])
    for (const name of ["PATH", "COMPASS", "BYPASS_CACHE", "PASSTHROUGH", "AUTHOR", "KEYBOARD", "SPINNER"])
      expect([name, named(name)]).toEqual([name, false])
  })

  test("make secrets of servers that do not run, too: disabled, left out, and templates as written", () => {
    const headers = { "X-Workspace": "header-value" }
    const url = "http://h/mcp"
    for (const document of [
      { mcpServers: { a: { url, headers, disabled: true } } },
      { mcpServers: { a: { url: "${NOWHERE}", headers } } },
      { mcpServers: { "a b": { url }, "a/b": { url, headers } } },
      {
        mcpTemplates: { a: { url, headers: { ...headers, "X-Path": "{{project.path}}" }, type: "{{transport.type}}" } },
      },
      { mcpTemplates: { a: { url, headers, disabled: true } } },
    ])
      expect(planned(document).idleSecrets).toEqual(["header-value"])
    expect(planned({ mcpServers: { a: { command: "x", env: { API_KEY: "$TOKEN" }, disabled: true } } })).toMatchObject({
      disabled: ["a"],
      idleSecrets: ["from-parent"],
      issues: [],
    })
    expect(planned({ mcpServers: { a: { url, headers } } }).idleSecrets).toEqual([])
  })

  test("a timeout that loses to serverDefaults is a warning [config:timeout:defaults]", () => {
    const found = (server: object, serverDefaults = { requestTimeout: 2500 }) =>
      planned({ serverDefaults, mcpServers: { a: { command: "x", ...server } } }).issues
    expect(found({ timeout: 5000 })).toMatchObject([
      {
        severity: "warning",
        server: "a",
        path: ["mcpServers", "a", "timeout"],
        message: expect.stringContaining("requestTimeout"),
      },
    ])
    expect(found({ timeout: 5000, requestTimeout: 5000 })).toEqual([])
    expect(found({ timeout: 5000 }, {} as never)).toEqual([])
    expect(found({})).toEqual([])
  })

  test("a time that looks like seconds is a warning that says what to write", () => {
    const found = (times: object, serverDefaults: object = {}) =>
      planned({ serverDefaults, mcpServers: { a: { command: "x", ...times } } } as never).issues
    for (const key of ["timeout", "connectionTimeout", "requestTimeout"]) {
      expect(found({ [key]: 60 })).toMatchObject([
        {
          severity: "warning",
          path: ["mcpServers", "a", key],
          message: `${key} is 60 milliseconds, which few servers meet; for 60 seconds, write 60000`,
        },
      ])
      expect(found({ [key]: 1000 })).toEqual([])
    }
    expect(found({}, { requestTimeout: 600 })).toMatchObject([{ path: ["serverDefaults", "requestTimeout"] }])
    expect(found({ idleTimeout: 600 })).toMatchObject([
      { path: ["mcpServers", "a", "idleTimeout"], message: expect.stringContaining("for 600 seconds, write 600000") },
    ])
    for (const idleTimeout of [0, 1000]) expect(found({ idleTimeout })).toEqual([])
  })

  test("a pattern in disabledTools is a warning, because it hides nothing [config:disabled-pattern]", () => {
    const found = (disabledTools: readonly string[]) =>
      planned({ mcpServers: { a: { command: "x", disabledTools } } } as never).issues
    expect(found(["read", "delete_*", "move_*"])).toMatchObject([
      {
        severity: "warning",
        server: "a",
        path: ["mcpServers", "a", "disabledTools", 1],
        message: expect.stringContaining("svc mcp tools disable a 'delete_*'"),
      },
    ])
    expect(found(["read", "a_svc_delete.all"])).toEqual([])
  })

  test("a folder in a variable is no secret, unless its name or a part of it says so", () => {
    const parent = { WD: "/srv/work", KEY_TOKEN: "/srv/token", HOOK: "/hooks/a8Kd03jLmQ92xZvB71TyUwEr5" }
    const { secrets } = single(server({ args: ["$WD", "$KEY_TOKEN", "$HOOK"], env: ["WD"] }), { parent })
    expect(secrets).toEqual(["/srv/token", "/hooks/a8Kd03jLmQ92xZvB71TyUwEr5"])
  })

  test("make their values secrets, except for parts of common paths", () => {
    const places = { args: ["$HOME/x"], env: ["FILE=${HOME}/y", "HOME", "TOKEN"] }
    expect(single(server(places), { parent: { HOME: "/home/somebody", TOKEN: "from-parent" } }).secrets).toEqual([
      "from-parent",
    ])
    const { secrets } = single(server({ args: ["$TOKEN"], env: { API_KEY: "literal-key", PLAIN: "visible-text" } }))
    expect([...secrets].sort()).toEqual(["from-parent", "literal-key"])
  })
})

describe("a child's environment", () => {
  test("is the safe set and the declared variables, and nothing else [env:child:safe] [env:dotenv:private]", () => {
    expect(child(server({ env: { A: "1" } }), { dotenv: { LEAK: "x", SVC_PORT: "9" } }).env).toEqual({
      A: "1",
      HOME: "/home/u",
      PATH: "/bin",
    })
  })

  test("inherits everything except SVC_* with inheritParentEnv [env:child:inherit]", () => {
    expect(child(server({ inheritParentEnv: true })).env).toEqual({
      APP_ONE: "1",
      APP_TWO: "2",
      HOME: "/home/u",
      OTHER: "other",
      PATH: "/bin",
      TOKEN: "from-parent",
    })
  })

  test("follows the last matching pattern [env:child:filter]", () => {
    expect(child(server({ envFilter: ["APP_*", "!APP_TWO", "!PATH"] })).env).toEqual({ APP_ONE: "1", HOME: "/home/u" })
  })

  test("inherits all but what it excludes, nothing, or what the filter names, as inheritParentEnv says [env:child:filter-mode]", () => {
    const all = child(server({ inheritParentEnv: true })).env
    const { APP_ONE: _one, APP_TWO: _two, ...rest } = all
    expect(child(server({ inheritParentEnv: true, envFilter: ["!APP_*"] })).env).toEqual(rest)
    expect(child(server({ envFilter: ["!APP_*"] })).env).toEqual({ HOME: "/home/u", PATH: "/bin" })
    expect(child(server({ inheritParentEnv: true, envFilter: ["APP_*"] })).env).not.toHaveProperty("TOKEN")
    const none = { HOME: "/home/u", PATH: "/bin" }
    const local = { dotenv: { APP_LOCAL: "l" } }
    expect(child(server({ inheritParentEnv: false, envFilter: ["APP_*"] }), local).env).toEqual(none)
    expect(child(server({ inheritParentEnv: false }, { envFilter: ["APP_*"] }), local).env).toEqual(none)
    expect(child(server({ inheritParentEnv: false, envFilter: ["!PATH"] })).env).toEqual({ HOME: "/home/u" })
    // A variable of .env needs a pattern that includes it.
    expect(child(server({ inheritParentEnv: true, envFilter: ["!APP_ONE"] }), local).env).not.toHaveProperty(
      "APP_LOCAL",
    )
  })

  test("gets variables of svc only by a pattern that names them [env:child:own]", () => {
    for (const envFilter of [["SVC_PORT"], ["SVC_*"]]) expect(child(server({ envFilter })).env.SVC_PORT).toBe("1")
    for (const envFilter of [["*"], ["!APP_*"], ["SVC_*", "!SVC_PORT"]])
      expect(child(server({ envFilter, inheritParentEnv: true })).env).not.toHaveProperty("SVC_PORT")
    expect(child(server({ envFilter: ["SVC_PORT", "!S*"] })).env).not.toHaveProperty("SVC_PORT")
  })

  test("with a filter that has no effect is a warning [env:child:idle-filter]", () => {
    const contradiction = "inheritParentEnv is false, so envFilter lets nothing in; remove one of them"
    const written = (more: object, defaults?: object) => planned(server(more, defaults)).issues
    expect(written({ inheritParentEnv: false, envFilter: ["APP_*"] })).toMatchObject([
      { severity: "warning", code: "idle_filter", server: "a", line: 6, message: contradiction },
    ])
    expect(written({}, { inheritParentEnv: false, envFilter: ["APP_*"] })).toMatchObject([
      { severity: "warning", line: 4, message: contradiction },
    ])
    expect(written({ envFilter: ["!APP_*"] })).toMatchObject([
      {
        message:
          "envFilter only excludes variables, and none is inherited; set inheritParentEnv: true to inherit the others",
      },
    ])
    expect(written({ envFilter: ["NOWHERE", "NO_*"] })).toMatchObject([
      { message: "envFilter lets nothing in: no variable in the environment or in .env matches it" },
    ])
    for (const more of [
      { envFilter: ["APP_ONE"] },
      { envFilter: ["SVC_PORT"] },
      { envFilter: ["!PATH"] },
      { inheritParentEnv: true, envFilter: ["!APP_*"] },
      { inheritParentEnv: false, envFilter: [] },
    ])
      expect(written(more)).toEqual([])
    // A server may opt out of what the defaults let in.
    expect(written({ inheritParentEnv: false }, { envFilter: ["APP_*"] })).toEqual([])
    const template = { command: "x", inheritParentEnv: false, envFilter: ["APP_*"] }
    expect(planned({ mcpTemplates: { t: template } }).issues).toMatchObject([{ server: "t", message: contradiction }])
    const expression = { command: "x", envFilter: ["{{user.name}}_*"] }
    expect(planned({ mcpTemplates: { t: expression } }).issues).toEqual([])
  })

  test("has the declared variables whatever the filter says [env:child:declared]", () => {
    expect(child(server({ env: { APP_ONE: "mine" }, envFilter: ["!APP_ONE"] })).env.APP_ONE).toBe("mine")
  })

  test("takes a bare name of an array from the parent or .env [env:child:array]", () => {
    expect(child(server({ env: ["TOKEN", "LOCAL", "X=1=2"] }), { dotenv: { LOCAL: "l" } }).env).toMatchObject({
      TOKEN: "from-parent",
      LOCAL: "l",
      X: "1=2",
    })
    expect(planned(server({ env: ["NOWHERE"] })).specs).toEqual([])
  })

  test("ignores case on Windows", () => {
    const windows = { platform: "win32", parent: { Path: "C:\\", SystemRoot: "C:\\W", Secret: "s" } }
    expect(child(server({ env: { PATH: "D:\\" } }), windows).env).toEqual({ PATH: "D:\\", SystemRoot: "C:\\W" })
  })
})

test.each([
  ["mcpServers", { isolation: "session" }, "starts one for each; remove one of the two keys"],
  ["mcpTemplates", {}, "each replica runs its own instances of a template"],
])("what cannot run once for all replicas is not loaded: %s [cluster:one:refused]", (section, more, says) => {
  const { specs, templates, issues } = planned({ [section]: { a: { command: "x", replicas: "one", ...more } } })
  expect([specs, templates]).toEqual([[], []])
  expect(issues.map(({ message }) => message)).toEqual([expect.stringContaining(says)])
})
