/**
 * Runs a page of the documentation as its readers do: its blocks in order, in a shell on a terminal, with a fresh HOME.
 *
 *   ```sh                        runs; the page fails with its first command that fails
 *   ```sh not-run="REASON"       does not run
 *   ```LANGUAGE file=PATH        is written to PATH, relative to HOME
 *   <!-- run … -->               runs too, and readers do not see it: what a reader has already, what a test must adapt
 *                                (a command after `!` never fails a page: use `[ -z "$(…)" ]`)
 *   <!-- needs: nginx -->        a program of Debian's package of that name, from the PATH or from Debian
 *
 * The port 3050 becomes a free one; $PORT, $PORT2 and $PORT3 are free for hidden commands. `svc serve` runs in the background.
 * `npx` starts packages from node_modules. A question of svc is answered with yes.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { listRunning, runningFolder } from "../../src/store/running.ts"
import { freePort, freshEnv, freshFolder, ROOT, runSvc, SVC } from "./harness.ts"

/** A part of a page that runs or is written, or the reason why it is not. `line` is where it begins. */
export type Block =
  | { readonly kind: "run"; readonly line: number; readonly text: string }
  | { readonly kind: "file"; readonly line: number; readonly text: string; readonly file: string }
  | { readonly kind: "not-run"; readonly line: number; readonly reason: string }

/** Returns all pages: README and docs. */
export const pages = (): readonly string[] => [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`)
    .sort(),
]

/** Returns the blocks of a page that matter here. Throws an Error for commands that are neither run nor say why. */
export function blocksOf(text: string): readonly Block[] {
  const pattern = /^```([^\n]*)\n([\s\S]*?)^```$|^<!-- run\n([\s\S]*?)^-->$/gm
  return [...text.matchAll(pattern)].flatMap(({ index, 1: info = "", 2: body = "", 3: hidden }): readonly Block[] => {
    const line = text.slice(0, index).split("\n").length
    if (hidden !== undefined) return [{ kind: "run", line, text: hidden }]
    const [language = "", ...rest] = info.split(" ")
    const marks = rest.join(" ")
    const reason = /^not-run="(.+)"$/.exec(marks)?.[1]
    const file = /^file=(\S+)$/.exec(marks)?.[1]
    if (marks !== "" && reason === undefined && file === undefined)
      throw new Error(`line ${line}: a block is marked with file=PATH or not-run="REASON", not ${marks}`)
    if (reason !== undefined) return [{ kind: "not-run", line, reason }]
    if (file !== undefined) return [{ kind: "file", line, text: body, file }]
    if (language === "sh") return [{ kind: "run", line, text: body }]
    if (SHELLS.has(language)) throw new Error(`line ${line}: commands are marked sh, or with not-run="REASON"`)
    return []
  })
}

/** Returns the packages that a page needs. */
export const needsOf = (text: string): readonly string[] =>
  (/^<!-- needs: (.+) -->$/m.exec(text)?.[1] ?? "").split(" ").filter((name) => name !== "")

/**
 * Returns the folder of a program: undefined if it is on the PATH, and null if it is nowhere. Takes it from Debian's package
 * into node_modules/.cache, without installing it.
 */
export function findProgram(name: string): string | undefined | null {
  if (Bun.which(name) !== null) return undefined
  const cache = join(ROOT, "node_modules", ".cache", "debian", name)
  const folder = () =>
    ["usr/sbin", "usr/bin"].map((path) => join(cache, path)).find((path) => existsSync(join(path, name)))
  if (folder() === undefined && Bun.which("apt-get") !== null && Bun.which("dpkg") !== null) {
    mkdirSync(cache, { recursive: true })
    const steps = `apt-get download ${name} && dpkg -x ${name}_*.deb . && rm -f ${name}_*.deb`
    Bun.spawnSync(["sh", "-c", steps], { cwd: cache, stdout: "ignore", stderr: "ignore", timeout: DOWNLOAD_MS })
  }
  return folder() ?? null
}

/** Runs the blocks of a page. Resolves to the exit code, 0 if all went well, and to all that was shown. */
export async function runPage(
  blocks: readonly Block[],
  programs: readonly string[],
): Promise<{ readonly code: number; readonly shown: string }> {
  const home = freshFolder()
  const ports = [await freePort(), await freePort(), await freePort()].map(String) as [string, string, string]
  const adapt = (text: string) => text.replaceAll("3050", ports[0])
  const bin = join(home, ".test-bin")
  mkdirSync(bin)
  const script = (name: string, text: string) => {
    writeFileSync(join(bin, name), text)
    chmodSync(join(bin, name), 0o755)
  }
  script("svc", SVC_SCRIPT)
  script("npx", NPX_SCRIPT)
  symlinkSync(process.execPath, join(bin, "bun"))
  const parts = blocks.flatMap((block, at) => {
    if (block.kind === "not-run") return []
    if (block.kind === "run") return [`: line ${block.line}`, adapt(block.text)]
    const copy = join(home, ".test-bin", `file-${at}`)
    writeFileSync(copy, adapt(block.text))
    const target = block.file.replace(/^~\//, "")
    return [`mkdir -p "$HOME/${dirname(target)}"`, `cp ${copy} "$HOME/${target}"`]
  })
  writeFileSync(join(bin, "page.sh"), ["set -e", "set -o pipefail", TRAPS, ...parts].join("\n"))
  let shown = ""
  let seen = 0
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const decoder = new TextDecoder()
  const child = Bun.spawn(["bash", join(bin, "page.sh")], {
    cwd: home,
    timeout: PAGE_MS,
    env: {
      ...freshEnv(home),
      PATH: [bin, ...programs, process.env.PATH].join(":"),
      TERM: "xterm",
      SVC: SVC,
      ROOT,
      SVC_PORT: ports[0],
      PORT: ports[0],
      PORT2: ports[1],
      PORT3: ports[2],
    },
    terminal: {
      cols: 120,
      rows: 50,
      data(terminal, bytes) {
        shown += decoder.decode(bytes, { stream: true })
        if (!/\[y\/N\] $/.test(shown.slice(seen))) return
        seen = shown.length
        terminal.write("y\r")
      },
      exit(terminal) {
        terminal.close()
        end()
      },
    },
  })
  const code = await child.exited
  await ended
  await stopAll(home)
  rmSync(home, { recursive: true, force: true })
  return { code, shown: shown.replaceAll("\r\n", "\n") }
}

// ---

const SHELLS: ReadonlySet<string> = new Set(["bash", "shell", "zsh", "console", "powershell", "pwsh", "bat", "cmd"])
const DOWNLOAD_MS = 60_000
/** After this time, the shell is ended, and with it everything that it has started. */
const PAGE_MS = 50_000

/** Serves in the background: the page continues as if its reader opened another terminal. */
const SVC_SCRIPT = `#!/bin/sh
case "$*" in
  *--help*|*--background*|*"--transport stdio"*) ;;
  serve*) "$SVC" stop >/dev/null 2>&1; exec "$SVC" "$@" --background ;;
esac
exec "$SVC" "$@"
`

const NPX_SCRIPT = `#!/bin/sh
[ "$1" = -y ] && shift
package=$1
shift
main="${ROOT}/node_modules/$package/dist/index.js"
[ -f "$main" ] || { echo "npx: $package is not among the packages of the tests" >&2; exit 1; }
exec node "$main" "$@"
`

const TRAPS = `trap 'code=$?; trap - ERR; echo "FAILED: $BASH_COMMAND"; exit $code' ERR
trap 'code=$?; trap - ERR; set +e; kill $(jobs -p) 2>/dev/null; wait; exit $code' EXIT`

/** Stops each svc that a page has left running. */
async function stopAll(home: string): Promise<void> {
  for (const { directory, file } of listRunning(runningFolder(home, undefined, process.platform)))
    await runSvc(["stop", "--config-dir", directory, "--config", file, "--timeout", "10s"], freshEnv(home))
}
