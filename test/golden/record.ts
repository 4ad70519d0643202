/** Records what the built binary shows on a terminal: the text of golden files, and the colors of the pictures in docs. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { wrap } from "../../src/lib/table.ts"

const ROOT = join(import.meta.dir, "..", "..")
const SVC = join(ROOT, "dist", process.platform === "win32" ? "svc.exe" : "svc")

/** A screen: the command that a person typed, and what it showed, with the codes of colors. */
export type RecordedScreen = { readonly name: string; readonly command: string; readonly shown: string }

/** Servers in each of the states that a first start may end in. */
const CONFIG = {
  mcpServers: {
    demo: { command: SVC, args: ["demo-server"], tags: ["try"] },
    notes: { command: SVC, args: ["demo-server"], tags: ["work"] },
    tracker: { command: "tracker-mcp", args: ["--stdio"] },
    weather: { command: "sh", args: ["-c", "echo 'Error: WEATHER_KEY is not set' >&2; exit 1"] },
    web: { url: "htps://example.com/mcp" },
    old: { command: "old-server", disabled: true },
  },
}

/** The commands of the screens, with their names; the first runs while the others do. */
const COMMANDS = [
  ["list", "svc mcp list"],
  ["status", "svc mcp status"],
  ["status-one", "svc mcp status weather"],
  ["health", "svc health"],
  ["tools", "svc mcp tools list demo"],
] as const

/** Records all screens on a terminal of this width. */
export async function recordScreens(columns: number): Promise<readonly RecordedScreen[]> {
  // Not in TMPDIR: the length of the path decides where lines break.
  const home = mkdtempSync("/tmp/svc-screen-")
  const folder = join(home, ".config", "svc")
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "mcp.json"), JSON.stringify(CONFIG, null, 2))
  const env = { HOME: home, PATH: "/usr/bin:/bin", LANG: "C.UTF-8", TERM: "xterm-256color" }
  const started = Promise.withResolvers<void>()
  // Lines of the log come in an order that depends on the machine.
  let first = ""
  const svc = openTerminal([SVC, "serve", "--port", "0", "--log-level", "error"], home, env, columns, (shown) => {
    first = shown
    if (shown.includes("Ctrl-C")) started.resolve()
  })
  try {
    await Promise.race([started.promise, svc.ended.then(() => Promise.reject(new Error(`svc ended: ${first}`)))])
    const port = /127\.0\.0\.1:(\d+)/.exec(first)?.[1] ?? ""
    const tidy = (text: string) => tidyScreen(text, home, port, columns)
    const screens = [{ name: "serve", command: "svc serve", shown: tidy(first) }]
    for (const [name, command] of COMMANDS) {
      let shown = ""
      await openTerminal([SVC, ...command.split(" ").slice(1)], home, env, columns, (text) => {
        shown = text
      }).ended
      screens.push({ name, command, shown: tidy(shown) })
    }
    return screens
  } finally {
    svc.stop()
    await svc.ended
    rmSync(home, { recursive: true, force: true })
  }
}

// ---

function openTerminal(
  cmd: readonly string[],
  cwd: string,
  env: Record<string, string>,
  columns: number,
  onshown: (text: string) => void,
): { readonly ended: Promise<void>; stop(): void } {
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const decoder = new TextDecoder()
  let shown = ""
  const child = Bun.spawn([...cmd], {
    cwd,
    env,
    terminal: {
      cols: columns,
      rows: 40,
      data(_terminal, bytes) {
        shown += decoder.decode(bytes, { stream: true })
        onshown(shown)
      },
      exit(terminal) {
        terminal.close()
        end()
      },
    },
  })
  return { ended, stop: () => child.kill("SIGTERM") }
}

/** Replaces what differs between machines and runs, by texts of the same width where tables hold them. */
function tidyScreen(text: string, home: string, port: string, columns: number): string {
  return (
    text
      .replaceAll("\r\n", "\n")
      // biome-ignore lint/suspicious/noControlCharactersInRegex: it erases the line in place
      .replace(/[^\n]*\r\u001b\[2K/g, "")
      .replaceAll(home, "/home/me")
      .replaceAll(`:${port}/`, ":3050/")
      // Wrapped again: where a line breaks depends on the digits of the process and of the version.
      .replace(/^.*\(svc [\d.]+,(?:.|\n(?!\n))*/gm, (paragraph) => {
        const line = paragraph.replace(/\n {2}/g, " ").replace(/\(svc \S+ process \d+/, "(svc 1.0.0, process 4242")
        return wrap(line, { width: columns, color: true })
      })
      .replace(/(process\s+)\d+/g, "$14242")
      .replace(/\b\d s\b/g, "2 s")
      .replace(/\b\d\d MB\b/g, "43 MB")
      .replace(/(?<!\d)\d\d:\d\d:\d\d/g, "09:41:00")
      .replace(/\(svc [\d.]+/g, "(svc 1.0.0")
      .trimEnd()
  )
}
