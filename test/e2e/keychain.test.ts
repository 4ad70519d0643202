/** Secrets in the keychain of the system: a real Secret Service, gnome-keyring in a D-Bus session of its own. */
import { expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, fixture, freshEnv, freshFolder, modern, removeFolder, runSvc, startSvc } from "./harness.ts"

const missing = ["dbus-daemon", "gnome-keyring-daemon"].find((name) => Bun.which(name) === null)
const NO_KEYCHAIN = missing !== undefined
if (NO_KEYCHAIN)
  process.stderr.write(
    `the tests of the keychain are skipped: there is no ${missing} (apt-get install gnome-keyring dbus)\n`,
  )

/** Starts a D-Bus session and an unlocked keychain for the home `folder`. `env` makes a program use them. */
async function openKeychain(folder: string) {
  const runtime = join(folder, "run")
  mkdirSync(runtime, { mode: 0o700 })
  const address = `unix:path=${join(runtime, "bus")}`
  const env = { ...freshEnv(folder), XDG_RUNTIME_DIR: runtime, DBUS_SESSION_BUS_ADDRESS: address }
  const quiet = { env, stdout: "ignore", stderr: "ignore" } as const
  const bus = Bun.spawn(["dbus-daemon", "--session", "--nofork", "--nopidfile", `--address=${address}`], quiet)
  const keyring = Bun.spawn(["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"], {
    ...quiet,
    stdin: new Blob(["password"]),
  })
  return {
    env,
    async [Symbol.asyncDispose]() {
      for (const child of [keyring, bus]) child.kill()
      await Promise.all([keyring.exited, bus.exited])
      removeFolder(folder)
    },
  }
}

test.skipIf(NO_KEYCHAIN)(
  "svc secret stores a value in the keychain, also before any configuration exists, and a server gets it [secrets:reference]",
  async () => {
    const folder = freshFolder()
    await using keychain = await openKeychain(folder)
    const svc = (args: readonly string[], stdin = "") => runSvc(args, keychain.env, stdin, folder)
    const canary = "canary-in-keychain"
    // The daemons need a moment until they answer.
    const stored = await eventually(async () => {
      const run = await svc(["secret", "set", "MY_KEY"], `${canary}\n`)
      return run.code === 0 ? run : undefined
    }, 20_000)
    expect(stored.stdout).toContain("${keychain:MY_KEY}")
    expect((await svc(["secret", "list"])).stdout).toMatch(/\$\{keychain:MY_KEY\} {2}in the keychain/)

    const home = join(folder, "served")
    mkdirSync(home)
    const entries = {
      tools: [{ name: "one", inputSchema: { type: "object" } }],
      prompts: [],
      resources: [],
      resourceTemplates: [],
    }
    const file = join(home, "entries.json")
    const seen = join(home, "seen")
    writeFileSync(file, JSON.stringify(entries))
    const server = {
      command: "sh",
      args: ["-c", 'printf %s "$$KEY" > "$$SEEN"; exec bun "$$0" "$$1"', fixture("defined.ts"), file],
      env: { KEY: "${keychain:MY_KEY}", SEEN: seen },
    }
    const without = { ...server, env: { KEY: "${keychain:NOBODYS}", SEEN: seen } }
    await using running = await startSvc({
      folder: home,
      config: { mcpServers: { server, missing: without } },
      env: keychain.env,
      flags: ["--log-level", "debug"],
    })
    const listed = async () => JSON.stringify(await modern(`${running.url}/mcp`, "tools/list"))
    await eventually(async () => (await listed()).includes("server_svc_one"))
    expect(readFileSync(seen, "utf8")).toBe(canary)
    expect(running.stderr()).not.toContain(canary)
    expect(running.stderr()).toContain(
      "missing is not loaded: env.KEY refers to ${keychain:NOBODYS}, which the keychain does not have",
    )

    expect((await svc(["secret", "rm", "MY_KEY"])).code).toBe(0)
    expect((await svc(["secret", "list"])).stdout).not.toContain("MY_KEY")
    expect((await svc(["secret", "rm", "MY_KEY"])).stderr).toContain("has no MY_KEY")
  },
  60_000,
)
