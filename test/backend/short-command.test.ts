/** Commands that end by themselves, run as real programs. */
import { expect, test } from "bun:test"
import { createShortCommands } from "../../src/backend/short-command.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { isAlive } from "../process.ts"

const run = createShortCommands({ folder: import.meta.dir, parent: { PATH: process.env.PATH }, clock: systemClock })
const never = new AbortController().signal

test.skipIf(process.platform === "win32")(
  "a command gets its text and its variables, may print what nobody reads, and leaves nothing behind that holds it open [notify:command]",
  async () => {
    const script = 'sleep 600 & head -c 200000 /dev/zero; echo "$! $NAME $(cat)" >&2; exit 3'
    const { exitCode, stdout, stderr } = await run(["sh", "-c", script], never, {
      input: "a text\n",
      variables: { NAME: "value" },
    })
    const [pid, ...words] = stderr.trim().split(" ")
    expect({ exitCode, stdout, words, left: isAlive(Number(pid)) }).toEqual({
      exitCode: 3,
      stdout: new Uint8Array(),
      words: ["value", "a", "text"],
      left: false,
    })
  },
)

test.skipIf(process.platform === "win32")(
  "what a command has printed is there soon after its end, though a session of its own holds the pipe open [secrets:commands]",
  async () => {
    const daemon = 'require("node:child_process").spawn("sleep", ["600"], { detached: true, stdio: "inherit" })'
    const script = `process.stderr.write(String(${daemon}.pid)); process.stdout.write("value"); process.exit(0)`
    const { exitCode, stdout, stderr } = await run(["bun", "-e", script], never, { maxBytes: 100 })
    process.kill(Number(stderr))
    expect([exitCode, new TextDecoder().decode(stdout)]).toEqual([0, "value"])
  },
)
