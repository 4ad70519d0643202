/** Runs the official conformance suite as a program and reads what it wrote. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ROOT } from "../e2e/harness.ts"
import { runProgram } from "../process.ts"

export const REVISIONS = ["2025-11-25", "2026-07-28"] as const
export type Revision = (typeof REVISIONS)[number]

/** The name of each scenario with whether it passed. */
export type Outcome = ReadonlyMap<string, boolean>

const SUITE = join(ROOT, "node_modules", "@modelcontextprotocol", "conformance")
const PROGRAM = join(SUITE, "dist", "index.js")

/** Every scenario of the suite, by the role that it tests, and the names of those for extensions. */
export type Suite = {
  readonly scenarios: Readonly<Record<Side | "authorization server", readonly string[]>>
  readonly extensions: ReadonlySet<string>
}
export type Side = "server" | "client"

/** Returns all scenarios of the suite. */
export async function readSuite(): Promise<Suite> {
  const { stdout } = await runSuite(["list"])
  const named = (title: string) =>
    [...sectionOf(stdout, title).matchAll(/^ {2}- (\S+) \[/gm)].map(([, name = ""]) => name)
  return {
    scenarios: {
      server: named("Server scenarios"),
      client: named("Client scenarios"),
      "authorization server": named("Authorization server scenarios"),
    },
    extensions: new Set([...stdout.matchAll(/^ {2}- (\S+) \[extension\]/gm)].map(([, name = ""]) => name)),
  }
}

/**
 * Returns the scenarios that the suite runs of servers or of clients for a revision: those that the revision requires, and those
 * that were added after it or that the suite's own servers do not pass yet. Extensions are left out.
 */
export async function scenariosOf(revision: Revision, side: Side, { extensions }: Suite): Promise<readonly string[]> {
  const { stdout } = await runSuite(["list", "--requirements", revision])
  const section = sectionOf(stdout, side === "server" ? "Server scenarios" : "Client scenarios")
  const others = new RegExp(`^ {4}- (\\S+) \\[${side}\\]`, "gm")
  return [...section.matchAll(/^ {2}- (\S+)/gm), ...stdout.matchAll(others)]
    .map(([, name = ""]) => name)
    .filter((name) => !extensions.has(name))
}

/**
 * Runs `scenarios` of `revision` against a server: all that the suite has for the revision at once or, with `each`, each by itself.
 * `alias` is the name of one server at svc's aggregated address: its tools and resources are renamed for the suite.
 */
export async function serverOutcome(
  url: string,
  revision: Revision,
  scenarios: readonly string[],
  { alias, each = false }: { readonly alias?: string | undefined; readonly each?: boolean } = {},
): Promise<Outcome> {
  const runs = each
    ? scenarios.map((scenario) => ["--scenario", scenario, "--spec-version", revision, "--force"])
    : [["--requirements", revision]]
  const env = alias === undefined ? {} : { SVC_SUITE_ALIAS: alias }
  const outcomes = await Promise.all(runs.map((which) => runServer(url, which, scenarios, env)))
  const found = new Map(outcomes.flatMap((outcome) => [...outcome]))
  return new Map(scenarios.map((name) => [name, found.get(name) === true]))
}

/** Runs one scenario for clients with svc as the client. `revision` is undefined for an extension. */
export async function clientPasses(
  scenario: string,
  revision: Revision | "2025-03-26" | undefined,
  env: Readonly<Record<string, string>>,
): Promise<boolean> {
  const command = `bun ${join(import.meta.dir, "client.ts")}`
  const version = revision === undefined ? [] : ["--spec-version", revision]
  const { code, stdout, stderr } = await runSuite(
    ["client", "--command", command, "--scenario", scenario, ...version],
    env,
  )
  if (code !== 0 && process.argv.includes("--verbose"))
    process.stderr.write(`  ${scenario} ${JSON.stringify(env)}\n${stdout.slice(-3000)}\n${stderr.slice(-2000)}\n`)
  // The suite also ends with 0 if it runs nothing.
  return code === 0 && !stdout.includes("SKIPPED: scenario")
}

/** Returns the suite's version. */
export function suiteVersion(): string {
  return (JSON.parse(readFileSync(join(SUITE, "package.json"), "utf8")) as { version: string }).version
}

// ---

type Check = { readonly id: string; readonly status: string; readonly errorMessage?: string }

/** Runs the suite against a server, and returns the outcome of `scenarios`. One in which the suite checks nothing has not passed. */
async function runServer(
  url: string,
  which: readonly string[],
  scenarios: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Outcome> {
  const output = mkdtempSync(join(tmpdir(), "svc-suite-"))
  try {
    const { stdout } = await runSuite(["server", "--url", url, ...which, "-o", output], env)
    const found = new Map<string, boolean>()
    for (const folder of readdirSync(output)) {
      const name = /^server-(.+)-\d{4}-\d{2}-\d{2}T/.exec(folder)?.[1]
      if (name === undefined || !scenarios.includes(name)) continue
      const file = join(output, folder, "checks.json")
      // A scenario that breaks off writes none.
      const checks = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as Check[]) : []
      const failures = checks.filter(({ status }) => status === "FAILURE")
      found.set(name, failures.length === 0 && checks.some(({ status }) => status !== "SKIPPED"))
      if (process.argv.includes("--verbose"))
        for (const { id, errorMessage } of failures)
          process.stderr.write(`  ${url} ${which.join(" ")} ${name}: ${id}: ${errorMessage}\n`)
    }
    if (found.size === 0) throw new Error(`the suite said nothing about ${url}:\n${stdout.slice(-2000)}`)
    return found
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}

/** Returns the part of a list under a title. */
const sectionOf = (list: string, title: string): string => (list.split(`${title} (`)[1] ?? "").split("\n\n")[0] ?? ""

/** Runs the suite in a folder of its own, because it writes its results where it runs. */
async function runSuite(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const cwd = mkdtempSync(join(tmpdir(), "svc-suite-"))
  const program = ["bun", "--preload", join(import.meta.dir, "alias.ts"), PROGRAM, ...args]
  const run = await runProgram(program, { cwd, env: { ...process.env, ...env } })
  rmSync(cwd, { recursive: true, force: true })
  return run
}
