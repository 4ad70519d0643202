/** Runs the official conformance suite as a program and reads what it wrote. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
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

/** Returns the scenarios that a revision requires of servers or of clients. */
export async function requiredScenarios(revision: Revision, side: "server" | "client"): Promise<readonly string[]> {
  const { stdout } = await runSuite(["list", "--requirements", revision])
  const section = stdout.split(`${side === "server" ? "Server" : "Client"} scenarios`)[1] ?? ""
  return [...(section.split("\n\n")[0] ?? "").matchAll(/^ {2}- (\S+)/gm)].map(([, name = ""]) => name)
}

/** Returns the scenarios for clients of the extensions of authorization. */
export async function authExtensions(): Promise<readonly string[]> {
  const { stdout } = await runSuite(["list"])
  return [...stdout.matchAll(/^ {2}- (auth\/\S+) \[extension\]/gm)].map(([, name = ""]) => name)
}

/**
 * Runs what `revision` requires of a server, or only `scenario`, and returns the outcome of the required scenarios.
 * `alias` is the name of one server at svc's aggregated address: its tools and resources are renamed for the suite.
 */
export async function serverOutcome(
  url: string,
  revision: Revision,
  required: readonly string[],
  { alias, scenario }: { readonly alias?: string | undefined; readonly scenario?: string } = {},
): Promise<Outcome> {
  const output = mkdtempSync(join(tmpdir(), "svc-suite-"))
  try {
    const which =
      scenario === undefined ? ["--requirements", revision] : ["--scenario", scenario, "--spec-version", revision]
    const { stdout } = await runSuite(
      ["server", "--url", url, ...which, "-o", output],
      alias === undefined ? {} : { SVC_SUITE_ALIAS: alias },
    )
    const found = new Map<string, boolean>()
    for (const folder of readdirSync(output)) {
      const name = /^server-(.+)-\d{4}-\d{2}-\d{2}T/.exec(folder)?.[1]
      if (name === undefined || !required.includes(name)) continue
      const failures = (JSON.parse(readFileSync(join(output, folder, "checks.json"), "utf8")) as Check[]).filter(
        ({ status }) => status === "FAILURE",
      )
      found.set(name, failures.length === 0)
      if (process.argv.includes("--verbose"))
        for (const { id, errorMessage } of failures)
          process.stderr.write(`  ${url} ${revision} ${name}: ${id}: ${errorMessage}\n`)
    }
    if (found.size === 0) throw new Error(`the suite said nothing about ${url}:\n${stdout.slice(-2000)}`)
    return found
  } finally {
    rmSync(output, { recursive: true, force: true })
  }
}

/** Runs one scenario for clients with svc as the client. `revision` is undefined for an extension. */
export async function clientPasses(
  scenario: string,
  revision: Revision | undefined,
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
  return code === 0
}

/** Returns the suite's version. */
export function suiteVersion(): string {
  return (JSON.parse(readFileSync(join(SUITE, "package.json"), "utf8")) as { version: string }).version
}

// ---

type Check = { readonly id: string; readonly status: string; readonly errorMessage?: string }

/** Runs the suite in a folder of its own, because it writes its results where it runs. */
async function runSuite(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const cwd = mkdtempSync(join(tmpdir(), "svc-suite-"))
  const program = ["bun", "--preload", join(import.meta.dir, "alias.ts"), PROGRAM, ...args]
  const run = await runProgram(program, { cwd, env: { ...process.env, ...env } })
  rmSync(cwd, { recursive: true, force: true })
  return run
}
