/** Commands of references, run as real programs. */
import { expect, test } from "bun:test"
import { existsSync, mkdtempSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { MAX_BYTES } from "../../../src/features/secrets/references.ts"
import { systemSources } from "../../../src/features/secrets/system-sources.ts"
import { isAlive, until } from "../../process.ts"

const { command } = systemSources({ folder: import.meta.dir, parent: { PATH: process.env.PATH, SVC_TOKEN: "own" } })
const sh = (script: string, signal = new AbortController().signal, ...args: string[]) =>
  command(["sh", "-c", script, ...args], signal)

test.skipIf(process.platform === "win32")(
  "what a command leaves behind ends with it, and does not hold its answer back [secrets:commands]",
  async () => {
    const { exitCode, stdout } = await sh("sleep 600 & echo $!")
    expect([exitCode, isAlive(Number(stdout))]).toEqual([0, false])
  },
)

test.skipIf(process.platform === "win32")(
  "a command that is given up ends with everything that it has started [secrets:commands]",
  async () => {
    const file = join(mkdtempSync(join(tmpdir(), "svc-command-")), "pids")
    const over = new AbortController()
    const ended = sh('sleep 600 & echo "$! $$" > "$0"; wait', over.signal, file)
    const pids = () => readFileSync(file, "utf8").trim().split(" ").map(Number)
    await until(() => existsSync(file) && pids().length === 2)
    expect(pids().map(isAlive)).toEqual([true, true])
    over.abort()
    expect((await ended).exitCode).not.toBe(0)
    expect(pids().map(isAlive)).toEqual([false, false])
  },
)

test.skipIf(process.platform === "win32")("a command that prints too much is ended [secrets:commands]", async () => {
  const fits = await sh(`head -c ${MAX_BYTES} /dev/zero`)
  expect([fits.exitCode, fits.stdout.length]).toEqual([0, MAX_BYTES])
  const long = await sh("yes")
  expect([long.exitCode === 0, long.stdout.length]).toEqual([false, MAX_BYTES + 1])
  // What it says besides does not end it.
  const loud = await sh("head -c 200000 /dev/zero >&2; echo value")
  expect([loud.exitCode, String(Buffer.from(loud.stdout))]).toEqual([0, "value\n"])
})

test("a command gets no variable of svc itself, and a program that does not exist is named [secrets:commands]", async () => {
  const { stdout } = await command(
    [process.execPath, "-e", "console.log(process.env.SVC_TOKEN)"],
    new AbortController().signal,
  )
  expect(String(Buffer.from(stdout)).trim()).toBe("undefined")
  await expect(command(["svc-no-such-program"], new AbortController().signal)).rejects.toThrow("is not found")
})
