/** `svc config import`, in the home of a user of several clients. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshFolder, readIfThere } from "../e2e/harness.ts"
import { commandsIn } from "../run-command.ts"

const home = (files: Readonly<Record<string, unknown>>): string =>
  freshFolder(Object.fromEntries(Object.entries(files).map(([name, value]) => [name, JSON.stringify(value)])))
const svcIn = (home: string, answers?: readonly string[]) =>
  commandsIn(join(home, "svc"), { home, ...(answers === undefined ? {} : { answers }) })
const written = (folder: string) => JSON.parse(readIfThere(join(folder, "svc/mcp.json")) ?? "").mcpServers

test("servers of all scopes are imported: equal ones once, different ones with the same name under a number [import:scopes] [import:names] [import:chosen] [import:offer]", async () => {
  const files = (path: string) => ({ command: "npx", args: ["-y", "server-filesystem", path] })
  const folder = home({
    ".claude.json": {
      mcpServers: { files: { type: "stdio", ...files("/a"), env: {} } },
      projects: { "/work/site": { mcpServers: { memory: { command: "memory" }, files: files("/site") } } },
    },
    ".cursor/mcp.json": { mcpServers: { documents: files("/a") } },
    ".gemini/settings.json": { mcpServers: { slow: { command: "slow", timeout: 5000 } } },
  })
  const svc = svcIn(folder)
  // A server that the client starts in one project only must not reach all projects unasked.
  const own = await svc("config", "import", "--dry-run")
  expect(own.stdout).toMatch(/memory .* \/work\/site +skipped: see --project\n/)
  expect(own.stderr).toContain("--project also imports the servers that belong to projects; svc then offers them in")
  expect(own.stdout).toContain("\nwould import files, slow; ")
  expect((await svc("setup", "--dry-run")).stdout).toContain("memory: it belongs to /work/site; ")
  const dry = await svc("config", "import", "--project", "--dry-run")
  expect(dry.stdout).toMatch(/^NAME +STARTS +FROM +PROJECT +NOTE/)
  expect(dry.stdout).toMatch(/memory +memory +claude-code +\/work\/site +svc offers it in every project/)
  // In the home directory, the user's file of Cursor is also that of the project.
  expect(dry.stdout.match(/documents/g)?.length).toBe(1)
  expect(dry.stdout).toMatch(/documents .* cursor +same as files\n/)
  expect(dry.stdout.match(/server-filesystem \/site/g)?.length).toBe(1)
  expect(dry.stdout).toContain("\nwould import files, memory, files-2, slow; `svc config import` shows them in full")
  const chosen = await svc("config", "import", "--project", "--only", "files-2", "--only=slow", "--dry-run")
  expect(chosen.stdout).toContain("\nwould import files-2, slow; ")
  expect(await svc("config", "import", "--only", "memori", "--yes")).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("no server to import is named memori; did you mean memory?"),
  })
  const done = await svc("config", "import", "--project", "--yes")
  expect(done.stdout).toContain("imported files, memory, files-2, slow")
  expect(done.stderr).toContain(
    "svc connect claude-code --replace\n  svc connect cursor --replace\n  svc connect gemini",
  )
  expect(written(folder)).toMatchObject({
    files: { args: ["-y", "server-filesystem", "/a"] },
    "files-2": { args: ["-y", "server-filesystem", "/site"] },
    slow: { requestTimeout: 5000 },
  })
  expect((await svc("config", "import", "--yes")).stdout).toContain("nothing imported")
  const { stdout } = await svc("connect", "claude-code", "--replace", "--yes", "--json")
  expect(JSON.parse(stdout).replaced).toEqual(["files", "memory", "files"])
  const { mcpServers, projects } = JSON.parse(readIfThere(join(folder, ".claude.json")) ?? "")
  expect([Object.keys(mcpServers), projects["/work/site"].mcpServers]).toEqual([["svc"], {}])
})

test("the projects that Claude Code knows have their own files, which --project imports [import:scopes] [import:project]", async () => {
  const folder = home({ "site/.mcp.json": { mcpServers: { site: { command: "site" } } } })
  const project = join(folder, "site")
  const own = { projects: { [project]: {}, [join(folder, "gone")]: {}, relative: {} } }
  writeFileSync(join(folder, ".claude.json"), JSON.stringify(own))
  const svc = svcIn(folder)
  const without = await svc("config", "import", "--yes")
  expect(without.stderr).toContain(
    `not read: ${join(project, ".mcp.json")} (from the repositories of projects); --project also imports them\n`,
  )
  const done = await svc("config", "import", "--project", "--yes")
  expect(done.stdout).toMatch(/site +site +claude-code +~\/site +svc offers it in every project\n/)
  expect(done.stderr).toContain(`svc connect claude-code --scope project --replace   (in ${project})\n`)
  expect(written(folder)).toEqual({ site: { command: "site" } })
})

test("the question hides secrets from the user's own files, but nothing that may be code [import:secrets-hidden]", async () => {
  const env = { API_KEY: "sk-0123456789abcdef", NODE_OPTIONS: "--require=./x.cjs", MODE: "fast" }
  const headers = { Authorization: "Bearer s3cret-value" }
  const folder = home({
    ".cursor/mcp.json": { mcpServers: { a: { command: "a", env }, b: { url: "https://b.example/mcp", headers } } },
  })
  const { stderr: shown } = await svcIn(folder, ["n"])("config", "import")
  expect(shown).toContain("  a with API_KEY=••• NODE_OPTIONS=--require=./x.cjs MODE=fast\n")
  expect(shown).toContain("  connect to https://b.example/mcp with Authorization=•••\n")
  // The question replaces the table.
  expect(shown.match(/b\.example/g)).toHaveLength(1)
})

test("secrets go to .env, and prompted values are asked for once [import:secrets]", async () => {
  const linear = { command: "linear", args: ["--key=${input:linear-key}"], env: { COPY: "${input:linear-key}" } }
  const files = {
    ".cursor/mcp.json": {
      mcpServers: { web: { url: "https://h.example/mcp", headers: { Authorization: "Bearer s3cret-value" } } },
    },
    ".config/Code/User/mcp.json": { servers: { linear } },
  }
  const folder = home(files)
  const { stderr: shown } = await svcIn(folder, ["typed$value"])("config", "import", "--yes")
  expect(shown).toContain("linear needs linear-key:")
  expect(shown).not.toContain("typed$value")
  expect(written(folder)).toMatchObject({
    web: { headers: { Authorization: "${WEB_AUTHORIZATION}" } },
    linear: { args: ["--key=${LINEAR_LINEAR_KEY}"], env: { COPY: "${LINEAR_LINEAR_KEY}" } },
  })
  const dotenv = readIfThere(join(folder, "svc/.env")) ?? ""
  expect(dotenv).toContain("Bearer s3cret-value")
  expect(dotenv).toContain("typed$value")
  expect((await svcIn(folder)("config", "import", "--dry-run")).stdout).toMatch(/vscode +same as linear/)
  // Without a terminal.
  const quiet = home(files)
  expect((await svcIn(quiet)("config", "import", "--yes")).stderr).toContain(
    "warning: linear needs LINEAR_LINEAR_KEY: set it in .env or in the environment\n",
  )
  expect((await svcIn(quiet)("config", "check")).stdout).toContain("LINEAR_LINEAR_KEY")
})

test("servers in the settings of VS Code are imported, and no other setting is taken for one [import:notations]", async () => {
  const folder = home({
    ".config/Code/User/settings.json": {
      "rest.environment": { command: "x" },
      mcp: { servers: { memory: { command: "memory" } } },
    },
    ".config/Code - Insiders/User/settings.json": { "rest.environment": { command: "x" } },
  })
  expect((await svcIn(folder)("config", "import", "--yes")).code).toBe(0)
  expect(written(folder)).toEqual({ memory: { command: "memory" } })
})
