import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import fc from "fast-check"
import { planServer } from "../../src/config/plan.ts"
import { serverSchema } from "../../src/config/schema.ts"
import { substitute } from "../../src/config/substitution.ts"
import { contextSchema, type TemplateContext } from "../../src/template/context-schema.ts"
import { instanceKey } from "../../src/template/instance.ts"
import { renderTemplate, validateTemplate } from "../../src/template/render.ts"
import type { Params } from "../../src/wire/message.ts"

const CONTEXT: TemplateContext = {
  project: {
    path: "/work/shop",
    name: "shop",
    git: { branch: "main" },
    custom: { port: 8080, flags: [], deep: { a: 1 } },
  },
  user: { username: "ada", home: "/home/ada", name: "Ada <L> & Co" },
  transport: { type: "stdio", client: { name: "cursor" } },
  context: { path: "/work/shop/api", timestamp: "2026-01-02T03:04:05.678Z", sessionId: "s1", version: "1.0.0" },
}

const withCustom = (custom: TemplateContext["project"]["custom"]): TemplateContext => ({
  ...CONTEXT,
  project: { ...CONTEXT.project, custom },
})

/** The rendered server, or the messages. */
function render(template: Params, context: TemplateContext = CONTEXT): unknown {
  const rendered = renderTemplate("web", template, context, new Map())
  return "server" in rendered ? rendered.server : rendered.problems.map(({ message }) => message)
}

const text = (template: string, context?: TemplateContext): unknown => {
  const rendered = render({ note: template }, context)
  return Array.isArray(rendered) ? rendered : (rendered as Params).note
}

const SECRETS = { HOME: "home-secret", TOKEN: "token-secret", A: "a-secret", _: "underscore-secret" }

/** The text as a backend gets it. */
const arriving = (rendered: unknown) =>
  substitute(String(rendered), (name) => (Object.hasOwn(SECRETS, name) ? SECRETS[name as "A"] : undefined)).text

describe("golden renderings", () => {
  const folder = join(import.meta.dir, "golden")
  test.each(readdirSync(folder))("%s", (file) => {
    const golden = JSON.parse(readFileSync(join(folder, file), "utf8"))
    expect(render(golden.template, contextSchema().parse(golden.context))).toEqual(golden.server ?? golden.problems)
  })
})

describe("a template", () => {
  test("renders strings with if, else, eq, and, or, not and default", () => {
    expect(text('{{#if (eq project.git.branch "main")}}a{{else}}b{{/if}}')).toBe("a")
    expect(text("{{#if project.environment}}a{{else if (and user.name user.home)}}b{{else}}c{{/if}}")).toBe("b")
    expect(text("{{#if (not (or user.email project.custom.flags))}}none{{/if}}")).toBe("none")
    expect(text('{{default project.environment user.email "dev"}}')).toBe("dev")
    expect(text('{{not (eq transport.type "http")}}')).toBe("true")
    expect(text("{{project.custom.port}}/{{project.custom.deep.a}}")).toBe("8080/1")
  })

  test("knows the namespaces project, user, transport and context [template:namespaces]", () => {
    const { path, name } = CONTEXT.project
    expect(
      text("{{project.path}} {{project.name}} {{user.username}} {{transport.client.name}} {{context.sessionId}}"),
    ).toBe(`${path} ${name} ada cursor s1`)
  })

  test("does not escape for HTML", () => {
    expect(text("{{user.name}}{{{user.name}}}")).toBe("Ada <L> & CoAda <L> & Co")
  })

  test("keeps keys, numbers, booleans and text without expressions", () => {
    const server = { "{{user.username}}": 1, restartOnExit: true, env: { "{{x}}": "$HOME" }, args: ["$", "${X", "}}"] }
    expect(render(server)).toEqual(server)
  })

  test("does not render its own output again", () => {
    expect(text("{{project.custom.x}}", withCustom({ x: "{{user.home}}" }))).toBe("{{user.home}}")
  })

  test("renders a known value that is not set as empty [template:missing]", () => {
    const template = { args: ["ok", "--env={{project.environment}}"], env: { MAIL: "{{user.email}}" } }
    expect(render(template)).toEqual({ args: ["ok", "--env="], env: { MAIL: "" } })
    expect(text('{{#if (eq user.email "")}}a{{else}}b{{/if}}')).toBe("a")
    const bare: TemplateContext = {
      ...CONTEXT,
      project: { ...CONTEXT.project, git: {} },
      transport: { type: "http", client: {} },
    }
    expect(text("[{{project.git.branch}}{{project.team}}{{transport.client.version}}]", bare)).toBe("[]")
  })

  test("names the template, property and expression of a missing member of project.custom [template:missing]", () => {
    expect(render({ args: ["ok", "--env={{project.custom.env}}"], env: { MAIL: "{{user.email}}" } })).toEqual([
      "template web: args[1]: {{project.custom.env}}: has no value here: set it in .svcrc",
    ])
  })

  test("rejects objects and lists as values", () => {
    for (const name of ["project.custom", "project.custom.flags", "project.custom.deep"])
      expect(text(`{{${name}}}`)).toEqual([`template web: note: {{${name}}}: is not a string or a number`])
  })

  test("treats a missing argument as false [template:missing]", () => {
    expect(text("{{#if project.custom.nothing.at.all}}a{{else}}b{{/if}}")).toBe("b")
    expect(text('{{#if (eq project.custom.nobody "x")}}a{{else}}b{{/if}}')).toBe("b")
    expect(text("{{#if user.email}}a{{else}}b{{/if}}")).toBe("b")
  })

  test.each(["true", "1", "Yes", "ON"])("is disabled by %s", (word) => {
    const rendered = render({ command: "x", disabled: "{{project.custom.off}}" }, withCustom({ off: word }))
    expect(rendered).toEqual({ command: "x", disabled: word })
  })
})

describe("validation", () => {
  const wrong = (template: string) =>
    validateTemplate("web", { note: template }, new Map()).map(({ message }) => message)

  test("finds syntax errors without a context", () => {
    expect(wrong("{{#if project.name}}x")).toEqual([
      "template web: note: {{#if project.name}}: is not a valid template: a block is not closed",
    ])
    expect(wrong("{{#if user.name}}x{{/iff}}")[0]).toContain("{{#if}} is closed by {{/iff}}")
    expect(wrong("a{{")).toHaveLength(1)
    expect(wrong('{"n":{{project.name}}}')[0]).toContain("put a space between them")
    expect(wrong("}} {project.name}")).toEqual([])
  })

  test("finds unknown names, even if they would count as false", () => {
    expect(wrong("{{projct.name}}")).toEqual([
      "template web: note: {{projct.name}}: there is no variable projct.name; did you mean project.name?",
    ])
    expect(wrong('{{#if (eq project.git.brunch "x")}}{{/if}}')[0]).toBe(
      "template web: note: project.git.brunch: there is no variable project.git.brunch; did you mean project.git.branch?",
    )
  })

  test("does not show the text around an expression", () => {
    for (const template of [
      "s3cret {{#if project.name}} s3cret",
      "s3cret {{oops s3cret",
      "s3cret {{#each project}}s3cret{{/each}} s3cret",
      "s3cret ${X:-s3cret{{project.name}} }",
      `s3cret ${"{{#if user.name}}s3cret".repeat(1000)}`,
    ]) {
      expect(wrong(template)).not.toEqual([])
      expect(wrong(template).join()).not.toContain("s3cret")
    }
  })

  test("suggests the nearest helper", () => {
    expect(wrong('{{defualt user.name "x"}}')[0]).toContain("there is no helper defualt; did you mean default?")
    expect(wrong('{{#eq user.name "x"}}{{/eq}}')[0]).toContain("write {{#if (eq …)}}")
  })

  test("is bounded", () => {
    expect(wrong("{{#if a}}".repeat(50_000))).toHaveLength(1)
    expect(wrong("{{#if user.name}}".repeat(600) + "{{/if}}".repeat(600))).toEqual([])
    expect(text(`{{${"not (".repeat(2600)}not user.name${")".repeat(2600)}}}`)).toBe("false")
  })

  test("never throws", () => {
    const bits = fc.constantFrom(
      "{{",
      "}}",
      "{{{",
      "#if ",
      "/if",
      "else",
      "^",
      "~",
      " ",
      "project.name",
      "(",
      ")",
      "eq",
      '"',
      "!--",
      "&",
      ">",
      "*",
      "$",
      "\\",
      "[",
      "]",
      ".",
      "@",
      "as |x|",
    )
    fc.assert(
      fc.property(fc.array(bits, { maxLength: 20 }), (parts) => {
        validateTemplate("web", { command: parts.join("") }, new Map())
        render({ command: parts.join("") })
      }),
    )
  })
})

describe("the environment", () => {
  test("is read only by references in the template's own text", () => {
    const context = withCustom({ a: "$HOME", b: "${TOKEN}", c: "{A}", d: "A", e: "$", f: "$$A" })
    expect(arriving(text("$TOKEN {{project.custom.a}} {{project.custom.b}}", context))).toBe(
      "token-secret $HOME ${TOKEN}",
    )
    expect(arriving(text("${{project.custom.d}} ${{{project.custom.c}}}", context))).toBe("$A ${A}")
    expect(arriving(text("{{project.custom.e}}A {{project.custom.e}}{{project.custom.d}}", context))).toBe("$A $A")
    expect(arriving(text("$TOKEN{{project.custom.d}} $${{project.custom.d}}", context))).toBe("token-secretA $A")
    expect(arriving(text("{{project.custom.f}}", context))).toBe("$$A")
    expect(arriving(text('{{default project.environment "$A"}}'))).toBe("$A")
  })

  test("an expression cannot complete a reference", () => {
    for (const template of [
      "${TOK{{project.name}} }",
      "${ {{project.name}}",
      "${X:-{{project.name}} }",
      "${{#if user.name}}{A}{{/if}}",
    ]) {
      const rendered = text(template, withCustom({}))
      if (Array.isArray(rendered)) expect(rendered[0]).toContain("must not be inside a ${…} reference")
      else expect(arriving(rendered)).not.toContain("secret")
    }
  })

  test("text arrives unchanged and only whole references are replaced, whatever the pieces [template:environment]", () => {
    const piece = fc.string({ unit: fc.constantFrom("$", "{", "}", "A", "_", ":", "-", "\\", "x"), maxLength: 6 })
    const written = piece.filter(
      (chunk) => !chunk.includes("{{") && !/^\}|\{$|\\$/.test(chunk) && !chunk.includes("}}"),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(written, piece), { minLength: 1, maxLength: 4 }), (pairs) => {
        const custom = Object.fromEntries(pairs.map(([, value], index) => [`v${index}`, value]))
        const template = pairs.map(([chunk], index) => `${chunk}{{project.custom.v${index}}}`).join("")
        const rendered = text(template, withCustom(custom))
        if (Array.isArray(rendered)) expect(pairs.some(([chunk]) => chunk.includes("${"))).toBe(true)
        else expect(arriving(rendered)).toBe(pairs.map(([chunk, value]) => arriving(chunk) + value).join(""))
      }),
      { numRuns: 500 },
    )
  })

  test("a context cannot name an inherited variable", () => {
    const context = withCustom({ name: "TOKEN" })
    expect(render({ env: ["{{project.custom.name}}"] }, context)).toEqual([
      "template web: env[0]: {{project.custom.name}}: must be the value of an entry NAME=value",
    ])
    expect(render({ envFilter: ["{{project.custom.name}}"] }, context)).toHaveLength(1)
    expect(render({ env: ["{{#if user.name}}HOME{{/if}}"], envFilter: ["{{#if user.name}}LC_*{{/if}}"] })).toEqual({
      env: ["HOME"],
      envFilter: ["LC_*"],
    })
  })

  test("an alias or an unknown key does not bypass the rules", () => {
    const rendered = render({ serverUrl: "http://x/{{project.custom.a}}" }, withCustom({ a: "$TOKEN" }))
    expect(rendered).toEqual({ serverUrl: "http://x/$$TOKEN" })
  })

  test("labels keep their dollars, because nothing is substituted in them", () => {
    const server = { tags: ["{{project.custom.a}}"], toolDescriptionOverrides: { x: "costs ${{project.custom.a}}" } }
    expect(render(server, withCustom({ a: "$5" }))).toEqual({
      tags: ["$5"],
      toolDescriptionOverrides: { x: "costs $$5" },
    })
  })

  test("reaches a planned server as written", () => {
    const rendered = render(
      {
        command: "run",
        args: ["$TOKEN", "{{project.custom.a}}"],
        cwd: "{{project.path}}",
        env: { B: "{{project.git.branch}}" },
      },
      withCustom({ a: "$HOME" }),
    )
    const world = { parent: SECRETS, dotenv: {}, platform: "linux", home: "/home/ada", folder: "/etc/svc" }
    const planned = planServer("web#1", "web", serverSchema().parse(rendered), {}, world)
    expect(planned).toMatchObject({
      spec: { id: "web#1", launch: { args: ["token-secret", "$HOME"], cwd: "/work/shop", env: { B: "main" } } },
    })
  })
})

describe("a context", () => {
  test.each(["a\nb", "a\rb", "a\0b"])("passes no line break and no NUL to a process or a server", (value) => {
    const context = withCustom({ x: value })
    for (const server of [
      { command: "{{raw project.custom.x}}" },
      { args: ["{{project.custom.x}}"] },
      { cwd: "/x/{{project.custom.x}}" },
      { env: { A: "{{project.custom.x}}" } },
      { url: "{{raw project.custom.x}}" },
      { headers: { A: "{{project.custom.x}}" } },
    ])
      expect(JSON.stringify(render(server, context))).toContain("has a line break or a NUL character in its value")
  })

  test("is bounded", () => {
    const deep = (depth: number): unknown => (depth === 0 ? 1 : [deep(depth - 1)])
    const fits = (custom: unknown) =>
      contextSchema().safeParse({ ...CONTEXT, project: { ...CONTEXT.project, custom } }).success
    expect(fits({ a: deep(7) })).toBe(true)
    expect(fits({ a: deep(8) })).toBe(false)
    expect(fits({ a: deep(5000) })).toBe(false)
    expect(fits({ a: "x".repeat(64 * 1024) })).toBe(false)
    expect(contextSchema().safeParse({ ...CONTEXT, user: { ...CONTEXT.user, home: "x".repeat(4097) } }).success).toBe(
      false,
    )
  })
})

describe("the operator decides what runs [template:project]", () => {
  const custom = { dash: "--require=/x/evil.cjs", word: "evil", up: "/../evil", en: "\u2013Command", n: -1, none: "" }
  const context = withCustom(custom)
  const messages = (template: Params) => String(JSON.stringify(render(template, context)))

  test.each([
    "{{project.custom.dash}}",
    "{{project.custom.en}}",
    "{{project.custom.n}}",
    " {{project.custom.dash}}",
    "{{project.custom.none}}{{project.custom.dash}}",
    "{{#if project.name}}{{project.custom.dash}}{{/if}}",
    "{{default project.custom.none project.custom.dash}}",
  ])("a project's text begins no option: %s", (arg) => {
    expect(messages({ command: "node", args: [arg, "server.mjs"] })).toContain("would be an option: put text before it")
  })

  test("the same text is accepted behind the template's own text, or if the template says raw", () => {
    const args = ["a.mjs", "--entry={{project.custom.dash}}", "{{raw project.custom.dash}}", "{{project.custom.word}}"]
    expect(render({ command: "node", args }, context)).toEqual({
      command: "node",
      args: ["a.mjs", `--entry=${custom.dash}`, custom.dash, "evil"],
    })
  })

  test.each<readonly [command: string, args: readonly string[]]>([
    ["sh", ["-c", "echo {{project.git.branch}}"]],
    ["sh", ["-c", "cd {{project.path}}"]],
    ["sh", ["-c", "echo {{transport.client.name}}"]],
    ["sh", ["-c", "{{#if project.name}}echo {{default project.team project.name}}{{/if}}"]],
    ["env", ["A=1", "bash", "-lc", "echo {{project.custom.word}}"]],
    ["node", ["--eval=run('{{project.name}}')"]],
    ["cmd", ["/c", "run", "{{project.path}}"]],
  ])("a context's text is no program text: %s %j", (command, args) => {
    const said = validateTemplate("web", { command, args }, new Map())
    expect(said).toMatchObject([{ path: ["args", expect.any(Number)] }])
    expect(said[0]?.message).toContain("would be program text")
    expect(messages({ command, args })).toContain("would be program text")
  })

  test("an interpreter that only the rendering names is found", () => {
    const args = ["-c", "echo {{project.git.branch}}"]
    for (const template of [
      { command: "{{#if project.name}}sh{{/if}}", args },
      { command: "sh", args: ["{{#if project.name}}-c{{/if}}", args[1]] },
    ]) {
      expect(validateTemplate("web", template, new Map())).toEqual([])
      expect(messages(template)).toContain("would be program text")
    }
  })

  test("program text may depend on a project, take its text as an argument, or say raw", () => {
    const args = ["-c", "run {{#if (eq project.git.branch 'main')}}live{{else}}dev{{/if}} $1", "sh", "{{project.path}}"]
    expect(render({ command: "sh", args })).toMatchObject({ args: ["-c", "run live $$1", "sh", "/work/shop"] })
    expect(render({ command: "sh", args: ["-c", "cd {{raw project.path}}"] })).toMatchObject({
      args: ["-c", "cd /work/shop"],
    })
    expect(validateTemplate("web", { command: "sh", args }, new Map())).toEqual([])
  })

  test.each<readonly [template: Params, allowed: Params, why: string]>([
    [{ command: "{{project.custom.word}}" }, { command: "{{raw project.custom.word}}" }, "must not choose the program"],
    [
      { command: "run{{project.custom.up}}" },
      { command: "run-{{project.custom.word}}" },
      "must not choose the program",
    ],
    [{ command: "{{project.name}}/run" }, { command: "{{project.path}}/run" }, "must not choose the program"],
    [{ url: "{{project.custom.word}}" }, { url: "https://x/{{project.custom.word}}" }, "must not choose the host"],
    [
      { env: { NODE_OPTIONS: "--title={{project.name}}" } },
      { env: { TITLE: "{{project.name}}", NODE_OPTIONS: "--title={{raw project.name}}" } },
      "holds options or code",
    ],
    [{ url: "{{project.path}}" }, { url: "{{raw project.path}}" }, "must not choose the host"],
    [
      { cwd: "{{project.custom.word}}" },
      { cwd: "/at/{{project.custom.word}}" },
      "must not choose the working directory",
    ],
    [{ env: ["LD_PRELOAD={{project.path}}/x.so"] }, { env: ["X={{project.path}}/x.so"] }, "holds options or code"],
  ])("a project chooses no program, no host and no variable's code: %j", (template, allowed, why) => {
    expect(messages(template)).toContain(why)
    expect(render(allowed, context)).not.toBeArray()
  })
})

const messagesAtLoad = (template: Params) => validateTemplate("web", template, new Map()).map(({ message }) => message)

describe("what a project must not choose is refused when the configuration is loaded [template:project]", () => {
  test.each<readonly [command: string, args: readonly string[]]>([
    ["node", ["{{project.custom.x}}"]],
    ["node", ["{{project.path}}/server.mjs"]],
    ["node", ["--require", "{{project.custom.x}}", "server.mjs"]],
    ["node", ["--import=data:text/javascript,{{project.custom.x}}", "server.mjs"]],
    ["npx", ["-y", "{{project.custom.x}}"]],
    ["npx", ["-y", "server@{{project.custom.x}}"]],
    ["npx", ["-y", "--package", "{{project.custom.x}}", "server"]],
    ["npx", ["-y", "tsx", "{{project.custom.x}}"]],
    ["uvx", ["{{project.custom.x}}"]],
    ["uvx", ["--from", "{{project.custom.x}}", "server"]],
    ["docker", ["run", "-i", "{{project.custom.x}}"]],
    ["docker", ["run", "-i", "image", "node", "{{project.custom.x}}"]],
    ["docker", ["run", "-v", "{{project.custom.x}}", "image"]],
    ["docker", ["run", "--mount=type=bind,src={{project.custom.x}},dst=/w", "image"]],
    ["git", ["-c", "{{project.custom.x}}=y", "log"]],
    ["server", ["-{{project.custom.x}}"]],
    ["server", ["--{{project.custom.x}}=y"]],
    ["/usr/bin/{{project.custom.x}}", []],
    ["{{project.path}}/{{project.custom.x}}", []],
    ["docker", ["run", "-e", "NODE_OPTIONS={{project.custom.x}}", "image"]],
    ["env", ["{{project.custom.x}}"]],
    ["env", ["NODE_PATH={{project.custom.x}}", "server"]],
    ["timeout", ["5", "{{project.custom.x}}"]],
    ["xargs", ["{{project.custom.x}}"]],
    ["python", ["-m", "{{project.custom.x}}"]],
    ["php", ["-d", "auto_prepend_file={{project.custom.x}}", "server.php"]],
    ["awk", ["{{project.custom.x}}"]],
    ["expect", ["-c", "{{project.custom.x}}"]],
    ["flock", ["/tmp/lock", "-c", "{{project.custom.x}}"]],
    ["runuser", ["-u", "me", "-c", "{{project.custom.x}}"]],
    ["watch", ["{{project.custom.x}}"]],
    ["nix-shell", ["--run", "{{project.custom.x}}"]],
    ["wsl", ["{{project.custom.x}}"]],
    ["wrapper", ["--fast", "npx", "-y", "{{project.custom.x}}"]],
  ])("in a command: %s %j", (command, args) => {
    expect(messagesAtLoad({ command, args })).not.toEqual([])
    expect(render({ command, args }, withCustom({ x: "evil" }))).toBeArray()
    const [program, ...allowed] = [command, ...args].map((text) => text.replaceAll("{{project", "{{raw project"))
    expect(messagesAtLoad({ command: program, args: allowed })).toEqual([])
    expect(render({ command: program, args: allowed }, withCustom({ x: "evil" }))).not.toBeArray()
  })

  test.each([
    "http://{{project.custom.x}}/",
    "https://{{user.username}}@host/",
    "https://host{{project.custom.x}}/",
    "https://host:{{project.custom.x}}/",
    "https:/{{project.custom.x}}/",
    "https:\\\\{{project.custom.x}}/",
    "https:///{{project.custom.x}}",
    "${BASE}{{project.custom.x}}",
    "${SCHEME}://{{project.custom.x}}/",
    "${BASE:-https://}{{project.custom.x}}/",
    "{{project.path}}",
    "{{#if project.name}}https://{{project.custom.x}}/{{/if}}",
  ])("in a url: %s", (url) => {
    expect(messagesAtLoad({ url })).not.toEqual([])
    expect(String(render({ url }, withCustom({ x: "evil" })))).toContain("must not choose the host")
  })

  test.each(
    "PATH NODE_PATH PYTHONPATH PYTHONHOME PERL5LIB DOTNET_STARTUP_HOOKS npm_config_registry UV_INDEX_URL PIP_INDEX_URL HTTPS_PROXY NODE_EXTRA_CA_CERTS HOME SHELL GIT_EXEC_PATH BROWSER RUSTC_WRAPPER CLASSPATH QT_PLUGIN_PATH JAVA_TOOL_OPTIONS SSL_CERT_FILE ZDOTDIR".split(
      " ",
    ),
  )("in the variable %s", (name) => {
    for (const env of [{ [name]: "a{{project.path}}" }, [`${name}=a{{project.path}}`]])
      expect(messagesAtLoad({ command: "x", env })).not.toEqual([])
  })
})

test.each<Params>([
  { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "{{project.path}}"] },
  { command: "db-mcp", args: ["--schema", "{{project.git.branch}}"] },
  { command: "uvx", args: ["mcp-server-git", "--repository", "{{project.path}}"] },
  { command: "docker", args: ["run", "-i", "--rm", "-v", "{{project.path}}:/w", "image"] },
  { command: "docker", args: ["run", "-i", "--mount", "type=bind,src={{project.path}},dst=/w", "image", "/w"] },
  { command: "git", args: ["-C", "{{project.path}}", "log", "{{project.git.branch}}"] },
  { command: "docker", args: ["run", "-i", "-e", "BRANCH={{project.git.branch}}", "image"] },
  { command: "npx", args: ["-y", "server", "--root={{project.path}}"], env: { PROJECT: "{{project.path}}" } },
  { command: "node", args: ["/opt/server.mjs", "{{project.path}}"], cwd: "{{project.path}}" },
  { command: "python", args: ["-m", "server", "--root", "{{project.path}}"], cwd: "{{project.path}}/api" },
  { command: "env", args: ["BRANCH={{project.git.branch}}", "server", "{{project.path}}"] },
  { command: "{{project.path}}/bin/server" },
  { command: "server", env: { PROJECT_PATH: "{{project.path}}", NODE_ENV: "{{project.name}}" } },
  { command: "server", env: ["GIT_BRANCH={{project.git.branch}}", "CLIENT={{transport.client.name}}"] },
  { url: "https://host/{{project.name}}/mcp?branch={{project.git.branch}}" },
  { url: "${BASE}/{{project.name}}" },
  { url: "{{#if project.name}}https://a/{{else}}https://b/{{/if}}{{project.name}}" },
])("a template's common uses of a project are not refused: %j", (template) => {
  expect(messagesAtLoad(template)).toEqual([])
  expect(render(template)).not.toBeArray()
})

describe("a rendering's key", () => {
  const keyOf = (template: Params, context: TemplateContext = CONTEXT) => {
    const rendered = renderTemplate("web", template, context, new Map())
    return "contributed" in rendered ? instanceKey(rendered.contributed) : undefined
  }
  const template = { args: ["{{project.path}}"], env: { A: "{{user.username}}", B: "2" } }
  const elsewhere = { ...CONTEXT, project: { ...CONTEXT.project, path: "/other" } }

  test("is the same for equal renderings, whatever the client and the order of keys", () => {
    expect(keyOf(template)).toMatch(/^[0-9a-f]{16}$/)
    expect(keyOf(template)).toBe(keyOf(template, { ...CONTEXT, transport: { type: "http", client: {} } }))
    expect(keyOf(template)).toBe(keyOf({ env: { B: "2", A: "{{user.username}}" }, args: ["{{project.path}}"] }))
    expect(keyOf(template)).not.toBe(keyOf(template, elsewhere))
  })

  test("does not depend on the fixed parts of a template", () => {
    expect(keyOf(template)).toBe(keyOf({ ...template, command: "other", disabledTools: ["x"] }))
    expect(keyOf({ command: "x" })).toBe(keyOf({ command: "y" }, elsewhere))
  })

  test("depends on the place of a value", () => {
    const keys = [
      { args: ["{{project.name}}", "x"] },
      { args: ["x", "{{project.name}}"] },
      { args: ["{{project.name}}", "{{project.name}}"] },
      { cwd: "/at/{{project.name}}" },
    ].map((server) => keyOf(server))
    expect(new Set(keys).size).toBe(4)
  })
})

/** Ways to get out of a template language that are known from elsewhere, and what they would show. */
const ATTACKS = [
  "{{constructor}}",
  "{{constructor.constructor}}",
  "{{__proto__}}",
  "{{project.__proto__}}",
  "{{project.constructor}}",
  "{{project.constructor.name}}",
  "{{project.custom.__proto__}}",
  "{{project.custom.constructor}}",
  "{{project.custom.constructor.name}}",
  "{{project.custom.toString}}",
  "{{project.custom.flags.length}}",
  "{{project.custom.[__proto__].[constructor]}}",
  "{{project.name.length}}",
  "{{project.name.constructor}}",
  "{{user.username.__proto__}}",
  "{{process.env.TOKEN}}",
  "{{process}}",
  "{{global}}",
  "{{globalThis.process.env.TOKEN}}",
  "{{Bun.env.TOKEN}}",
  "{{env.TOKEN}}",
  "{{require}}",
  "{{this}}",
  "{{.}}",
  "{{this.constructor}}",
  "{{..}}",
  "{{../constructor}}",
  "{{@root}}",
  "{{@root.constructor}}",
  "{{@data}}",
  "{{lookup this 'constructor'}}",
  "{{lookup project '__proto__'}}",
  "{{#with project}}{{name}}{{/with}}",
  "{{#with (lookup this 'constructor')}}{{name}}{{/with}}",
  "{{#each project}}{{@key}}{{/each}}",
  "{{#each this}}{{this}}{{/each}}",
  "{{#unless project.name}}x{{/unless}}",
  "{{log project.name}}",
  "{{helperMissing}}",
  "{{blockHelperMissing}}",
  "{{#blockHelperMissing project}}x{{/blockHelperMissing}}",
  "{{#helperMissing}}x{{/helperMissing}}",
  "{{__defineGetter__ 'a' 'b'}}",
  "{{hasOwnProperty 'project'}}",
  "{{toString}}",
  "{{valueOf}}",
  '{{"constructor"}}',
  "{{'__proto__'}}",
  "{{> partial}}",
  "{{> (lookup . 'x')}}",
  "{{#> layout}}x{{/layout}}",
  '{{#*inline "x"}}{{project.name}}{{/inline}}',
  "{{* decorator}}",
  "{{#* decorator}}x{{/decorator}}",
  "{{#if project as |x|}}{{x}}{{/if}}",
  "{{#if project.name includeZero=true}}x{{/if}}",
  "{{default project.environment process.env.TOKEN}}",
  "{{default project.environment (lookup project 'constructor')}}",
  "{{eq.constructor 'a' 'b'}}",
  "{{if.constructor}}",
  "{{#eq.constructor}}x{{/eq.constructor}}",
  "{{#constructor}}x{{/constructor}}",
  "{{^constructor}}x{{/constructor}}",
  "{{{{constructor}}}}x{{{{/constructor}}}}",
  "{{#if constructor}}x{{/if}}{{constructor}}",
  // The published escapes of handlebars: a call of Function by way of a helper or a literal.
  "{{#with split as |a|}}{{pop (push \"alert('x')\")}}{{/with}}",
  '{{#with "s" as |string|}}{{#with "e"}}{{#with split as |conslist|}}{{this.pop}}{{/with}}{{/with}}{{/with}}',
  '{{(project.custom.constructor "return process.env")}}',
  '{{project.custom.constructor "return process.env"}}',
]

describe("attacks", () => {
  test.each(ATTACKS)("%s renders nothing", (attack) => {
    const rendered = renderTemplate("web", { command: attack }, CONTEXT, new Map())
    expect("problems" in rendered && rendered.problems.length > 0).toBe(true)
  })

  test.each([
    "project.custom.constructor",
    "project.custom.__proto__",
    "project.custom.deep.constructor",
    "project.custom.toString",
    "project.custom.flags.length",
  ])("%s is nothing, also where nothing is allowed", (name) => {
    expect(text(`{{#if ${name}}}a{{else}}b{{/if}}`)).toBe("b")
    expect(text(`{{default ${name} "b"}}`)).toBe("b")
  })

  test("a function in a context is neither called nor shown [template:data]", () => {
    let called = 0
    const spy = () => {
      called++
      return "x"
    }
    const context = withCustom({ spy, deep: { toString: spy, valueOf: spy, toJSON: spy, toHTML: spy } })
    expect(text("{{project.custom.spy}}", context)).toBeArray()
    expect(text("{{project.custom.deep}}", context)).toBeArray()
    expect(text('{{#if (eq project.custom.deep "x")}}a{{/if}}', context)).toBe("")
    expect(called).toBe(0)
  })

  test("a member named __proto__ changes no prototype", () => {
    const server = JSON.parse('{"env": {"__proto__": "{{user.username}}"}}')
    const rendered = render(server) as { env: object }
    expect(Object.entries(rendered.env)).toEqual([["__proto__", "ada"]])
    expect(Object.getPrototypeOf(rendered.env)).toBe(Object.prototype)
  })
})
