/**
 * Checks that a feature can be deleted: deletes its folder, those of the features that build on it, and the files and lines of app/,
 * commands/ and cli/ that name them, in a copy of this checkout. The rest must compile, and the tests of the core must pass.
 *
 *     bun scripts/deletable.ts FEATURE…   these features, each in a copy of its own
 *     bun scripts/deletable.ts --turn     two of them, others each day
 *     bun scripts/deletable.ts            all
 *
 *  1. A line names a feature if it does not compile without it: the smallest member of a list, member of an object or statement.
 *     Lines that do not compile without those are deleted as well, round by round.
 *  2. Only app/, commands/ and cli/ lose lines. A `return` goes only with its function in
 *     app/features.ts; elsewhere, the function would mean something else.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseSync } from "oxc-parser"

/** The files in app/, commands/ and cli/ that go with a feature. */
const FILES: Readonly<Record<string, readonly string[]>> = {
  cluster: ["cli/cluster.ts"],
  connect: [
    "cli/client-token.ts",
    "cli/config-import.ts",
    "cli/connect.ts",
    "cli/disconnect.ts",
    "cli/mcp-add-json.ts",
    "cli/preset-clients.ts",
    "cli/setup.ts",
    // It undoes the changes of clients' files.
    "cli/uninstall.ts",
    "commands/client-commands.ts",
  ],
  doctor: ["cli/doctor.ts", "commands/remote-sign-in.ts"],
  notify: ["cli/notify.ts"],
  oauth: ["cli/auth-login.ts", "commands/remote-sign-in.ts"],
  rest: ["cli/activity.ts"],
  search: ["cli/search.ts"],
  secrets: ["cli/secret.ts"],
  system: ["cli/backup.ts", "cli/service.ts", "cli/uninstall.ts", "cli/upgrade.ts"],
  tools: ["cli/mcp-install.ts", "cli/registry.ts", "commands/run-tool.ts"],
}

/** The features that build on another one, and go with it. */
const NEEDED_BY: Readonly<Record<string, readonly string[]>> = { registry: ["tools", "rest"], tools: ["rest"] }

const CORE = "lib wire config template store catalog backend agent report call session serve".split(" ")
const LOSES_LINES = /^src\/(?:app|commands|cli)\//
const COMPOSITION = "src/app/features.ts"
const CANNOT_FIND = /Cannot find (?:module|name)|has no exported member/
/** A deletion that takes more is no deletion of lines. */
const MAX_ROUNDS = 20
const MAX_LINES = 200
const MAX_TEST_MS = 300_000

const root = join(import.meta.dir, "..")
const print = (text: string) => process.stdout.write(`${text}\n`)

function chosen(words: readonly string[]): readonly string[] {
  const all = readdirSync(join(root, "src", "features")).sort()
  const unknown = words.find((word) => word !== "--turn" && !all.includes(word))
  if (unknown !== undefined) throw new Error(`no feature is named ${unknown}; there are ${all.join(", ")}`)
  if (!words.includes("--turn")) return words.length > 0 ? words : all
  const day = Math.floor(Date.now() / 86_400_000)
  return [...new Set([all[(2 * day) % all.length], all[(2 * day + 1) % all.length]])].flatMap((one) => one ?? [])
}

/** Returns why a feature cannot be deleted; undefined if it can be. */
async function problemOf(feature: string, copy: string): Promise<string | undefined> {
  copyTo(copy)
  for (const gone of [feature, ...(NEEDED_BY[feature] ?? [])]) {
    for (const side of ["src", "test"]) rmSync(join(copy, side, "features", gone), { recursive: true, force: true })
    for (const file of FILES[gone] ?? []) rmSync(join(copy, "src", file))
  }
  let lines = 0
  for (let round = 0; ; round++) {
    const all = await compile(copy)
    if (all.length === 0) break
    // The other errors may only follow from these.
    const missing = all.filter(({ text }) => CANNOT_FIND.test(text))
    const errors = missing.length > 0 ? missing : all
    const elsewhere = errors.filter(({ file }) => !LOSES_LINES.test(file))
    if (elsewhere.length > 0)
      return `other files do not compile without it:\n${elsewhere.map(({ text }) => text).join("\n")}`
    if (round === MAX_ROUNDS)
      return `${MAX_ROUNDS} rounds of deletions were not enough:\n${errors.map(({ text }) => text).join("\n")}`
    for (const [file, found] of Map.groupBy(errors, (error) => error.file)) {
      const text = readFileSync(join(copy, file), "utf8")
      const units = found.map((error) => unitAt(file, text, error))
      const stuck = found[units.indexOf(undefined)]
      if (stuck !== undefined) return `no line to delete: ${stuck.text}`
      let rest = text
      for (const [start, end] of merged(units).toReversed()) {
        lines += text.slice(start, end).trim().split("\n").length
        print(`${file}: ${text.slice(start, end).trim()}`)
        rest = rest.slice(0, start) + rest.slice(end)
      }
      writeFileSync(join(copy, file), rest)
    }
    if (lines > MAX_LINES) return `more than ${MAX_LINES} lines name it`
  }
  print(`${feature}: ${lines} lines name it`)
  const tests = Bun.spawn(
    ["bun", "test", "--parallel=2", "--timeout", "60000", ...CORE.map((folder) => `test/${folder}/`)],
    {
      cwd: copy,
      stdout: "pipe",
      stderr: "pipe",
    },
  )
  const timer = setTimeout(() => tests.kill(), MAX_TEST_MS)
  const output = (await Promise.all([new Response(tests.stdout).text(), new Response(tests.stderr).text()])).join("")
  clearTimeout(timer)
  if ((await tests.exited) === 0) return undefined
  return `tests of the core fail:\n${output
    .split("\n")
    .filter((line) => !line.startsWith("(pass)"))
    .join("\n")}`
}

/** Copies the files of this checkout, without what builds make of them. */
function copyTo(copy: string): void {
  for (const name of ["src", "test", "scripts", "package.json", "tsconfig.json", "bunfig.toml"])
    cpSync(join(root, name), join(copy, name), { recursive: true })
  symlinkSync(join(root, "node_modules"), join(copy, "node_modules"))
  const include = ["src", ...CORE.map((folder) => `test/${folder}`)]
  const compilerOptions = { noUnusedLocals: false, noUnusedParameters: false }
  const settings = { extends: "./tsconfig.json", compilerOptions, include, exclude: ["src/admin"] }
  writeFileSync(join(copy, "tsconfig.rest.json"), JSON.stringify(settings))
}

type CompileError = { readonly file: string; readonly line: number; readonly column: number; readonly text: string }

async function compile(copy: string): Promise<readonly CompileError[]> {
  const tsc = Bun.spawn(["node_modules/.bin/tsc", "--pretty", "false", "-p", "tsconfig.rest.json"], { cwd: copy })
  const output = await new Response(tsc.stdout).text()
  const errors = [...output.matchAll(/^(\S+)\((\d+),(\d+)\): error .*$/gm)].map(
    ([text, file = "", line, column]): CompileError => ({ text, file, line: Number(line), column: Number(column) }),
  )
  if ((await tsc.exited) !== 0 && errors.length === 0) throw new Error(`tsc failed: ${output}`)
  return errors
}

type Node = { readonly type: string; readonly start: number; readonly end: number }
type Range = readonly [start: number, end: number]

/** The lists whose members are lines of their own, by the node that has them. */
const LISTS: Readonly<Record<string, readonly [member: string, separator: string]>> = {
  Program: ["body", ""],
  BlockStatement: ["body", ""],
  ClassBody: ["body", ""],
  SwitchCase: ["consequent", ""],
  ObjectExpression: ["properties", ","],
  ObjectPattern: ["properties", ","],
  ArrayExpression: ["elements", ","],
  ImportDeclaration: ["specifiers", ","],
  ExportNamedDeclaration: ["specifiers", ","],
  TSTypeLiteral: ["members", ""],
  TSInterfaceBody: ["body", ""],
  TSUnionType: ["types", "|"],
}

/** Returns the range of the smallest deletable text around an error; undefined if there is none. */
function unitAt(file: string, text: string, { line, column }: CompileError): Range | undefined {
  const position = text.split("\n", line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1
  const path: Node[] = []
  for (let node: Node | undefined = parseSync(file, text).program as Node; node !== undefined; ) {
    path.push(node)
    node = childrenOf(node).find(({ start, end }) => start <= position && position < end)
  }
  let returned = false
  for (let at = path.length - 1; at > 0; at--) {
    const [node, parent] = [path[at] as Node, path[at - 1] as Node]
    // A function without its result would mean something else. One that opens the feature goes as a whole.
    if (node.type === "ReturnStatement" && file !== COMPOSITION) return undefined
    if (node.type === "ReturnStatement") returned = true
    else if (/Function/.test(node.type)) returned = false
    if (returned) continue
    const [member, separator = ""] = LISTS[parent.type] ?? []
    const list = member === undefined ? undefined : (parent as unknown as Record<string, unknown>)[member]
    if (!Array.isArray(list) || !list.includes(node)) continue
    // A module that is not there, and the last name of a module, take the whole import with them.
    if (/^(?:Import|ExportNamed)Declaration$/.test(parent.type) && list.length === 1) continue
    // The other elements would move to other names.
    if (parent.type === "ArrayExpression" && path.some((one) => isUnpacked(one))) continue
    return withSeparator(text, [node.start, node.end], separator)
  }
  return undefined
}

const isUnpacked = (node: Node): boolean =>
  node.type === "VariableDeclarator" && (node as unknown as { id: Node }).id.type === "ArrayPattern"

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && "start" in value

const childrenOf = (node: Node): readonly Node[] =>
  Object.values<unknown>({ ...node })
    .flat()
    .filter(isNode)

/** Adds the separator after the range, or the one before it. */
function withSeparator(text: string, [start, end]: Range, separator: string): Range {
  if (separator === "") return [start, end]
  const after = /^\s*/.exec(text.slice(end))?.[0].length ?? 0
  if (text[end + after] === separator) return [start, end + after + 1]
  const before = text.slice(0, start).trimEnd()
  return before.endsWith(separator) ? [before.length - 1, end] : [start, end]
}

/** Returns the ranges in their order, those that touch as one. */
function merged(ranges: readonly (Range | undefined)[]): readonly Range[] {
  const sorted = ranges.filter((one) => one !== undefined).sort((one, other) => one[0] - other[0] || other[1] - one[1])
  const kept: Range[] = []
  for (const [start, end] of sorted) {
    const last = kept.at(-1)
    if (last === undefined || start >= last[1]) kept.push([start, end])
    // Neighbors share a separator.
    else if (end > last[1]) kept[kept.length - 1] = [last[0], end]
  }
  return kept
}

const features = chosen(process.argv.slice(2))
let failed = 0
for (const feature of features) {
  const copy = mkdtempSync(join(tmpdir(), "svc-deletable-"))
  try {
    const problem = await problemOf(feature, copy)
    if (problem !== undefined) failed++
    print(`${feature}: ${problem ?? "can be deleted"}`)
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}
print(` ${features.length - failed} pass\n ${failed} fail`)
process.exitCode = failed > 0 ? 1 : 0
