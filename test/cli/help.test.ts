/** The help page of each command: complete, within its width, and with examples that svc accepts. */
import { expect, test } from "bun:test"
import type { CommandDef } from "citty"
import { SERVE_OPTIONS } from "../../src/app/serve-options.ts"
import { EXAMPLES } from "../../src/cli/examples.ts"
import { helpPage } from "../../src/cli/help.ts"
import { root } from "../../src/cli/root.ts"
import { findCommand, resolved } from "../../src/lib/command-line.ts"
import { everyCommand } from "../command-tree.ts"

const pages = (await everyCommand()).filter(({ command }) => !(command.meta as { hidden?: boolean })?.hidden)

test("each help page fits its terminal, and 80 columns without one [cli:help]", async () => {
  for (const { path, command } of pages)
    for (const [width, most] of [
      [Number.POSITIVE_INFINITY, 80],
      [60, 60],
    ] as const) {
      const lines = (await helpPage(command, path, { width, color: false })).split("\n")
      const examples = lines.lastIndexOf("examples")
      const long = lines.slice(0, examples).filter((line) => Bun.stringWidth(line) > most && !line.startsWith("usage:"))
      expect([path, long]).toEqual([path, []])
      // A command line is not broken, so that it can be copied.
      expect(lines.slice(examples).filter((line) => Bun.stringWidth(line) > 80)).toEqual([])
    }
})

test("each help page names every option once, and has examples [cli:help]", async () => {
  for (const { path, command } of pages) {
    const page = await helpPage(command, path, { width: 80, color: false }, true)
    const [rows = ""] = page.split("\nexamples\n")
    for (const name of Object.keys((await resolved(command.args)) ?? {})) {
      const row = new RegExp(`^  (?:-+\\w+, )*--(?:no-)?${name}(?: |$)|^  ${name.toUpperCase()}  `, "gm")
      expect([path, name, rows.match(row)?.length]).toEqual([path, name, 1])
    }
    for (const name of Object.keys((await resolved(command.subCommands)) ?? {}))
      expect([path, page.split(`\n  ${name} `).length]).toEqual([path, 2])
    expect([path, (EXAMPLES[path.join(" ")] ?? []).length > 0]).toEqual([path, true])
  }
})

test("the examples use commands that exist, and svc accepts them [cli:help]", async () => {
  const paths = pages.map(({ path }) => path.join(" "))
  expect(Object.keys(EXAMPLES).filter((path) => !paths.includes(path))).toEqual([])
  for (const [line] of Object.values(EXAMPLES).flat()) {
    const words = [
      ...line
        .replace(/ [<>|] .*/, "")
        .replace(/^source <\((.*)\)$/, "$1")
        .replace(/^.*"\$\((.*)\)"$/, "$1")
        .matchAll(/'([^']*)'|(\S+)/g),
    ].map(([, quoted, plain]) => quoted ?? plain ?? "")
    expect(words[0]).toBe("svc")
    expect(await findCommand(root, words.slice(1))).toMatchObject({ help: false })
  }
})

test("svc serve --help shows fifteen options, and with --all every one [cli:help:all]", async () => {
  const serve = (await resolved((root.subCommands as Record<string, CommandDef>).serve)) as CommandDef
  const rows = (page: string) => page.split("\nexamples\n")[0]?.match(/^ {2}--[a-z-]+/gm) ?? []
  const page = await helpPage(serve, ["serve"], { width: 80, color: false })
  expect(rows(page)).toHaveLength(15)
  expect(page).toContain(`\n\`svc serve --help --all\` shows ${Object.keys(SERVE_OPTIONS).length - 15} more options.\n`)
  const all = await helpPage(serve, ["serve"], { width: 80, color: false }, true)
  expect(rows(all)).toHaveLength(Object.keys(SERVE_OPTIONS).length)
  expect(all).not.toContain("more options")
})
