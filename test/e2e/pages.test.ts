/** The documentation's commands run as written: see page.ts for how. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { isAlive } from "../../src/store/files.ts"
import { ROOT } from "./harness.ts"
import { blocksOf, findProgram, needsOf, pages, runPage } from "./page.ts"

for (const page of pages()) {
  const text = readFileSync(join(ROOT, page), "utf8")
  const blocks = blocksOf(text)
  if (!blocks.some(({ kind }) => kind === "run")) continue
  const programs = needsOf(text).map(findProgram)
  const missing = programs.includes(null) ? " (not run: a program that it needs is neither here nor at Debian)" : ""
  test.skipIf(missing !== "")(
    `the commands of ${page} run as written${missing}`,
    async () => {
      const { code, shown } = await runPage(
        blocks,
        programs.filter((folder) => typeof folder === "string"),
      )
      if (code !== 0) throw new Error(`${page} ended with ${code}:\n${shown}`)
      expect(code).toBe(0)
    },
    60_000,
  )
}

test("commands are marked sh, or say why they are not run", () => {
  expect(blocksOf('```sh\na\n```\n```sh not-run="why"\nb\n```\n')).toEqual([
    { kind: "run", line: 1, text: "a\n" },
    { kind: "not-run", line: 4, reason: "why" },
  ])
  expect(blocksOf("```json file=~/a.json\n{}\n```\n\n<!-- run\nb\n-->\n```text\nc\n```\n")).toEqual([
    { kind: "file", line: 1, text: "{}\n", file: "~/a.json" },
    { kind: "run", line: 5, text: "b\n" },
  ])
  expect(() => blocksOf("```bash\na\n```\n")).toThrow("line 1: commands are marked sh")
  expect(() => blocksOf("```sh skip\na\n```\n")).toThrow("line 1: a block is marked with")
})

test("a page fails with its first command that fails, and leaves no process", async () => {
  const failing = blocksOf("```sh\nsvc serve\nfalse\necho never\n```\n")
  const { code, shown } = await runPage(failing, [])
  expect([code, shown]).toEqual([1, expect.stringContaining("FAILED: false")])
  expect(shown).not.toContain("never")
  const [, pid = ""] = /process (\d+)/.exec(shown) ?? []
  expect(pid).not.toBe("")
  expect(isAlive(Number(pid))).toBe(false)
})
