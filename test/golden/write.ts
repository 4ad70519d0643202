/** Writes the golden files: `bun run golden`, after `bun run build`. Look at the difference before you commit it. */
import { readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { CommandDef } from "citty"
import { COMPLETION_SCRIPTS } from "../../src/cli/completion.ts"
import { helpPage } from "../../src/cli/help.ts"
import { root } from "../../src/cli/root.ts"
import { resolved } from "../../src/lib/command-line.ts"
import { recordScreens } from "./record.ts"

type GoldenFile = readonly [file: string, text: string]

/** Returns the screens of the built binary on terminals of 80 and 120 columns, without their colors. */
export async function goldenScreens(): Promise<readonly GoldenFile[]> {
  const files: GoldenFile[] = []
  for (const columns of [80, 120])
    for (const { name, command, shown } of await recordScreens(columns))
      files.push([join(import.meta.dir, `${name}.${columns}.txt`), `$ ${command}\n${Bun.stripANSI(shown)}\n`])
  return files
}

/** Returns the help pages at 80 columns, those of the commands with most options at 120, and the scripts for shells. */
export async function goldenHelp(): Promise<readonly GoldenFile[]> {
  const file = (path: readonly string[], columns: number) =>
    join(import.meta.dir, `help-${["svc", ...path].join("-")}.${columns}.txt`)
  const pages = async (command: CommandDef, path: readonly string[]): Promise<readonly GoldenFile[]> => {
    const widths = WIDE.has(path.join(" ")) ? [80, 120] : [80]
    const own = widths.map(async (width): Promise<GoldenFile> => {
      return [file(path, width), `${await helpPage(command, path, { width, color: false })}\n`]
    })
    const all = await helpPage(command, path, { width: 80, color: false }, true)
    const [first] = await Promise.all(own)
    const full: readonly GoldenFile[] = first?.[1] === `${all}\n` ? [] : [[file([...path, "all"], 80), `${all}\n`]]
    const subs = Object.entries((await resolved(command.subCommands)) ?? {})
    const under = subs.map(async ([name, sub]) => pages((await resolved(sub)) as CommandDef, [...path, name]))
    return [...(await Promise.all(own)), ...full, ...(await Promise.all(under)).flat()]
  }
  const scripts = Object.entries(COMPLETION_SCRIPTS).map(
    ([shell, text]): GoldenFile => [join(import.meta.dir, `completion-${shell}.txt`), text],
  )
  return [...(await pages(root, [])), ...scripts]
}

// ---

const WIDE: ReadonlySet<string> = new Set(["", "serve", "mcp"])

if (import.meta.main) {
  const files = [...(await goldenScreens()), ...(await goldenHelp())]
  for (const name of readdirSync(import.meta.dir)) if (name.endsWith(".txt")) rmSync(join(import.meta.dir, name))
  for (const [file, text] of files) writeFileSync(file, text)
}
