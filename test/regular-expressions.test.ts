/**
 * The regular expressions of the program take linear time: clients, servers, files and registries choose the texts. recheck finds
 * those that do not. An exception needs a reason why its texts are short.
 */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Glob } from "bun"
import { parseSync } from "oxc-parser"

// Without the programs that recheck would start.
process.env.RECHECK_BACKEND = "pure"
const { checkSync } = await import("recheck")

/** Superlinear expressions, and those that recheck cannot judge, by the reason why they do no harm. */
const EXCEPTIONS: Readonly<Record<string, readonly string[]>> = {
  "the operator's own setting, flag, address, command line or .env file": [
    String.raw`/^\d+\.\d+\.\d+[\w.+-]*$/`,
    String.raw`/\/+$/`,
    String.raw`/(\\*)"/g`,
    String.raw`/(\\+)$/`,
    String.raw`/[\\/]goose[\\/].*\.ya?ml$/`,
    String.raw`/^"((?:\\"|[^"])*)"[^\S\n]*(?:#.*)?(?:\n|$)/`,
    String.raw`/^'((?:\\'|[^'])*)'[^\S\n]*(?:#.*)?(?:\n|$)/`,
    "/^`((?:\\\\`|[^`])*)`[^\\S\\n]*(?:#.*)?(?:\\n|$)/",
  ],
  "a text that svc has written": [
    String.raw`/(?:refers to|names) ([A-Za-z_]\w*), which is not set/`,
    "/, [a-z]+ '.*'$/s",
  ],
  "a text that was cut to at most 500 characters before": [
    String.raw`/[\s.,;:]+$/`,
    String.raw`/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g`,
  ],
  "a header, which has at most 16 KiB": [
    String.raw`/(?:^|,)\s*text\/event-stream\s*(?:,|$|;(?!\s*q=0(?:\.0*)?\s*(?:,|$)))/i`,
  ],
  "recheck cannot judge it; each try ends after a constant number of characters, or at the next character that can begin one":
    [
      String.raw`/(?<![\w-])([\w-]{1,200})["']?\s*[:=]\s*["']?(?!\w+ (?:\$|\{\{))\w/g`,
      "/(?<=[.!?:;]) +/",
      String.raw`/^(.+?)(?:[/:]|__|\.(?=[^.]*$))/`,
      String.raw`/[?&]([^\s=&#]{1,256})=([^\s&#]+)/g`,
      String.raw`/^[ \t]*(?:\/\*(?:(?!\*\/)[^\r\n])*\*\/[ \t]*)*(?:\/\/[^\r\n]*)?(?=\r?\n|$)/`,
      String.raw`/(?:^|[\s:,[])-?(?:[\d.]{16}|\d+(?:\.\d+)?[eE]|\d+\.\d*0(?!\d)|0\.0{6}|(?<=-)0(?!\.))/`,
      String.raw`/[a-z][a-z0-9+.-]{0,30}:\/\/[^\s"'<>]*/gi`,
    ],
}

/** Files with expressions that are put together from texts. Their parts are constants of svc or escaped, or they are never run. */
const COMPOSED = [
  "src/catalog/schema-check.ts",
  "src/features/connect/client-edit.ts",
  "src/lib/redact.ts",
  "src/lib/redaction-patterns.ts",
  "src/lib/secret-names.ts",
  "src/features/rest/api.ts",
  "src/features/results/result-shape.ts",
  "src/store/gone-configurations.ts",
  "src/features/system/purge.ts",
  "src/features/tools/update-plan.ts",
  "src/wire/frame.ts",
  "src/wire/member-marks.ts",
  "src/wire/message.ts",
]

const root = join(import.meta.dir, "..")
const files = [...new Glob("{src,admin}/**/*.{ts,tsx}").scanSync(root)].sort()

type Found = { readonly file: string; readonly source: string; readonly flags: string }

const found: Found[] = []
const composed = new Set<string>()
for (const file of files) {
  const { program } = parseSync(file, readFileSync(join(root, file), "utf8"))
  const walk = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return
    const { type, regex, callee, arguments: args } = node as Readonly<Record<string, unknown>>
    if (type === "Literal" && regex !== undefined) {
      const { pattern, flags } = regex as { readonly pattern: string; readonly flags: string }
      found.push({ file, source: pattern, flags })
    }
    if (type === "NewExpression" && (callee as { readonly name?: string }).name === "RegExp") {
      const [source, flags] = args as readonly { readonly value?: unknown }[]
      if (typeof source?.value === "string")
        found.push({ file, source: source.value, flags: String(flags?.value ?? "") })
      else composed.add(file)
    }
    for (const value of Object.values(node)) walk(value)
  }
  walk(program)
}
const unique = [...new Map(found.map((one) => [`/${one.source}/${one.flags}`, one]))]

/** Whether an expression is linear for a simple reason: it repeats nothing without a limit, or only once after its beginning. */
function isSimple({ source, flags }: Found): boolean {
  const plain = source.replace(/\\./g, "x").replace(/\[[^\]]*\]/g, "x")
  const loops = plain.match(/[*+]|\{\d+,\}/g) ?? []
  if (loops.length === 0) return true
  const top = plain.replace(/\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g, "()")
  return (
    loops.length === 1 && top.startsWith("^") && !/\||\)\{/.test(top) && !/\)[*+]/.test(plain) && !flags.includes("m")
  )
}

/** Milliseconds of one check, many times what it takes. */
const MS = 30_000
/** recheck runs the texts that it suspects and takes the time, so on a loaded machine it may be wrong once, but not each time. */
const TRIES = 3
function fails({ source, flags }: Found): boolean {
  const isSafe = (checker: "automaton" | "fuzz") => {
    try {
      const { status } = checkSync(source, flags, { checker, timeout: MS, randomSeed: 1 })
      return status === "unknown" ? undefined : status === "safe"
    } catch {
      // The check itself needed too much stack.
      return undefined
    }
  }
  return !(isSafe("automaton") ?? Array.from({ length: TRIES }).some(() => isSafe("fuzz") === true))
}

const judged = unique.filter(([, one]) => !isSimple(one))
const excepted = new Set(Object.values(EXCEPTIONS).flat())
const PER_TEST = 12

describe("regular expressions", () => {
  const wanted = judged.filter(([key]) => !excepted.has(key))
  for (let first = 0; first < wanted.length; first += PER_TEST) {
    const some = wanted.slice(first, first + PER_TEST)
    test(`take linear time: ${some[0]?.[0]} and others`, () => {
      expect(some.flatMap(([key, one]) => (fails(one) ? [`${one.file}: ${key}`] : []))).toEqual([])
    }, 600_000)
  }

  test("each exception is an expression of the program", () => {
    expect([...excepted].filter((key) => !judged.some(([known]) => known === key))).toEqual([])
  })

  test("expressions composed of texts are in the files listed here", () => {
    expect([...composed].sort()).toEqual([...COMPOSED].sort())
  })

  test("one that takes superlinear time is found", () => {
    const judge = (source: string) =>
      !isSimple({ file: "", source, flags: "" }) && fails({ file: "", source, flags: "" })
    const bad = [
      "^\\s*```\\w*\\s*\\n([\\s\\S]*?)\\n?\\s*```\\s*$",
      "^\\s*(\\d{0,15})\\s*(-?)\\s*(\\d{0,15})\\s*$",
      "\\s*$",
      "(a+)+$",
    ]
    expect(bad.map(judge)).toEqual(bad.map(() => true))
    expect(["^\\s*(\\d{1,9})$", "[^a]", "^a*b", "^(?:ab|c)+$"].map(judge)).toEqual([false, false, false, false])
  })
})
