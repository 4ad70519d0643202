/** Completion in real shells: a line is typed in a terminal, then Tab. */
import { describe, expect, test } from "bun:test"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, fixture, freshEnv, freshFolder, runSvc, SVC, startSvc } from "./harness.ts"

/** A home with servers, a preset and a token, and with svc on the PATH. */
async function homeWithNames(): Promise<{ readonly home: string; readonly env: Record<string, string> }> {
  const home = freshFolder()
  const folder = join(home, ".config", "svc")
  mkdirSync(folder, { recursive: true })
  mkdirSync(join(home, "bin"))
  symlinkSync(SVC, join(home, "bin", "svc"))
  writeFileSync(
    join(folder, "mcp.json"),
    JSON.stringify({ mcpServers: { alpha: { command: "true" }, "beta two": { command: "true" } } }),
  )
  writeFileSync(join(folder, "presets.json"), JSON.stringify({ presets: { work: { filter: "web" } } }))
  writeFileSync(join(home, "certificate.pem"), "")
  const env: Record<string, string> = { ...freshEnv(home), TERM: "dumb" }
  await runSvc(["auth", "token", "create", "--name", "laptop"], env)
  return { home, env: { ...env, PATH: `${join(home, "bin")}:${env.PATH}` } }
}

const SHELLS = [
  { shell: "bash", args: ["--norc", "-i"], setup: "source <(svc completion bash)" },
  { shell: "zsh", args: ["-f", "-i"], setup: "autoload -U compinit; compinit -u -D; source <(svc completion zsh)" },
  { shell: "fish", args: ["--no-config", "-i"], setup: "svc completion fish | source" },
].filter(({ shell }) => Bun.which(shell) !== null)

/** What is typed, and what the line holds after Tab. */
const LINES = [
  ["svc mcp stat", "svc mcp status "],
  ["svc mcp status al", "svc mcp status alpha "],
  ["svc mcp status bet", "svc mcp status beta\\ two "],
  ["svc preset show w", "svc preset show work "],
  ["svc auth token revoke l", "svc auth token revoke laptop "],
  ["svc serve --log-level de", "svc serve --log-level debug "],
  ["svc serve --log-level=de", "svc serve --log-level=debug "],
  ["svc serve --tls-cert certi", "svc serve --tls-cert certificate.pem "],
] as const

describe("the script completes commands, names, values and files as they are typed [cli:completion:shells]", () => {
  test.each(SHELLS)(
    "$shell",
    async ({ shell, args, setup }) => {
      const { home, env } = await homeWithNames()
      const decoder = new TextDecoder()
      let shown = ""
      const child = Bun.spawn([shell, ...args], {
        cwd: home,
        env,
        terminal: {
          cols: 200,
          rows: 50,
          data(_terminal, bytes) {
            shown += Bun.stripANSI(decoder.decode(bytes, { stream: true }))
          },
        },
      })
      // Ctrl-U, and the line is written to a file by the shell itself: what a terminal shows depends on its width and colors.
      const type = (text: string) => child.terminal?.write(text)
      type(`${setup}; echo read''y\r`)
      await eventually(() => shown.includes("\nready"))
      for (const [typed, completed] of LINES) {
        shown = ""
        type(`${typed}\t`)
        // The shell shows the rest of the word.
        await eventually(() => shown.replaceAll("\r", "").replaceAll("\u0007", "").includes(completed))
        type("\u0015")
      }
      child.kill("SIGKILL")
      await child.exited
    },
    60_000,
  )
})

test("names of tools come from the running svc; a broken configuration completes nothing, silently [cli:completion]", async () => {
  const raw = { command: "bun", args: [fixture("echo.ts")] }
  await using svc = await startSvc({ config: { mcpServers: { raw } } })
  await svc.said("raw: connected")
  const asked = ["complete", "--config-dir", svc.folder, "mcp", "tools", "disable", "raw", ""]
  expect((await runSvc(asked)).stdout).toBe("none\necho\t\n")
  const target = ["complete", "--config-dir", svc.folder, "run", "raw"]
  expect((await runSvc(target)).stdout).toBe("none\nraw\t\nraw/echo\t\n")
  svc.write("{ nonsense")
  const broken = await runSvc(["complete", "--config-dir", svc.folder, "mcp", "status", ""])
  expect(broken).toEqual({ code: 0, stdout: "none\n", stderr: "" })
})
