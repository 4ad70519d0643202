/** Secrets in the keychain of the system: a real Secret Service, gnome-keyring in a D-Bus session of its own. */
import { expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { token } from "./api.ts"
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

/** Returns the words of a line as a shell reads them. */
const wordsOf = (line: string): string[] => {
  const { stdout } = Bun.spawnSync(["sh", "-c", `printf '%s\\n' ${line}`])
  return stdout.toString().trim().split("\n")
}

test.skipIf(NO_KEYCHAIN)(
  "keys move to the keychain beside what it has, whatever .env and the environment have [secrets:moved]",
  async () => {
    const folder = freshFolder()
    await using keychain = await openKeychain(folder)
    const svc = (args: readonly string[], stdin: string | Uint8Array = "", env = {}) =>
      runSvc(args, { ...keychain.env, ...env }, stdin, folder)
    await eventually(async () => (await svc(["secret", "set", "B_KEY"], "canary-of-another")).code === 0, 20_000)
    const own = join(folder, ".config", "svc")
    const file = join(own, "mcp.json")
    const env = { A_KEY: "canary-1", B_KEY: "canary-2", C_KEY: "canary-3" }
    writeFileSync(file, JSON.stringify({ mcpServers: { x: { command: "true", env } } }))
    writeFileSync(join(own, ".env"), "A_KEY=canary-1\n")
    const moved = await svc(["secret", "import", "--yes", "--to", "keychain"], "", { C_KEY: "canary-3" })
    expect([moved.code, moved.stdout]).toEqual([0, expect.stringContaining("moved 3 keys to the keychain")])
    expect(JSON.parse(readFileSync(file, "utf8")).mcpServers.x.env).toEqual({
      A_KEY: "${keychain:A_KEY}",
      B_KEY: "${keychain:X_B_KEY}",
      C_KEY: "${keychain:C_KEY}",
    })
    expect((await svc(["config", "check"])).code).toBe(0)
    // A name with a blank, as the message about a missing secret writes it.
    writeFileSync(
      file,
      JSON.stringify({ mcpServers: { x: { command: "true", env: { K: "${keychain:with space}" } } } }),
    )
    const { stdout: checked } = await svc(["config", "check"])
    const [, remedy = ""] = /`svc (secret set .*)` stores it/.exec(checked) ?? []
    expect((await svc(wordsOf(remedy), "canary-4")).code).toBe(0)
    expect((await svc(["config", "check"])).code).toBe(0)
    expect((await svc(["secret", "set", " blank"], "canary-5")).stderr).toContain("is no name of a secret")
    const refused = await svc(["secret", "set", "BYTES"], new Uint8Array([0x63, 0xe9]))
    expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("is not UTF-8 text")])
  },
  60_000,
)

test.skipIf(NO_KEYCHAIN)(
  "svc secret stores a value in the keychain, also before any configuration exists, and a server gets it, also if REST stores it [secrets:reference] [rest:machine-secrets]",
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

    // REST stores one, and svc starts the server without being asked.
    const { headers } = await token(running)
    const answer = await fetch(`${running.url}/api/v1/secrets/NOBODYS`, {
      method: "PUT",
      headers: { ...headers, "content-type": "application/json" },
      body: JSON.stringify({ value: "canary-of-rest", in: "keychain" }),
    })
    expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ storedIn: "keychain" })])
    await eventually(async () => (await listed()).includes("missing_svc_one"))
    expect(readFileSync(seen, "utf8")).toBe("canary-of-rest")
    const removed = await fetch(`${running.url}/api/v1/secrets/NOBODYS?in=keychain`, { method: "DELETE", headers })
    expect([removed.status, await removed.json()]).toEqual([200, expect.objectContaining({ applied: true })])
    await running.said("missing keeps running in its last valid form")

    expect((await svc(["secret", "rm", "MY_KEY"])).code).toBe(0)
    expect((await svc(["secret", "list"])).stdout).not.toContain("MY_KEY")
    expect((await svc(["secret", "rm", "MY_KEY"])).stderr).toContain("has no MY_KEY")
  },
  60_000,
)
