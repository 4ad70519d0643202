/**
 * Packages, and modules of Node.js, that a start loads before it can answer: every other one is imported where it is used. A cold
 * start pays for each; `node:crypto`, `node:net`, `node:tls` and `node:zlib` take 4 ms, because they load Node's streams.
 */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"

const SRC = join(import.meta.dir, "..", "src")

test.each([
  ["svc --version", ["main.ts"], ["node:fs"]],
  [
    "svc serve, before it listens",
    ["main.ts", "cli/serve.ts"],
    ["bun:sqlite", "node:buffer", "node:fs", "node:os", "node:path", "node:util"],
  ],
])("%s loads no packages but those for arguments and the log", (_, entries, builtin) => {
  expect(importsOf(entries.map((entry) => join(SRC, entry)))).toEqual([...builtin, "citty", "consola/core"].sort())
})

test("the first load of a common configuration needs neither schemas nor templates", () => {
  const loaded = importsOf([join(SRC, "app", "reload-loop.ts"), join(SRC, "serve", "proxy-server.ts")])
  expect(loaded).toEqual([
    "consola/core",
    "jsonc-parser",
    ...["node:buffer", "node:fs", "node:fs/promises", "node:os", "node:path"],
  ])
})

test("the walk finds a package that is loaded through other files", () => {
  expect(importsOf([join(SRC, "cli", "mcp-add.ts")])).toContain("zod")
})

test("an svc without --cluster never loads code for clusters, neither at its start nor later [cluster:off]", () => {
  const ofCluster = /^features\/cluster\//
  expect(filesOf(["main.ts", "cli/serve.ts", ...LATER]).filter((file) => ofCluster.test(file))).toEqual([])
  expect(filesOf(["features/cluster/cluster.ts"]).filter((file) => ofCluster.test(file))).toContain(
    "features/cluster/redis-state.ts",
  )
})

test("an svc without references never loads what looks up their values, neither at its start nor later [secrets:off]", () => {
  const loaded = filesOf(["main.ts", "cli/serve.ts", ...LATER])
  expect(loaded.filter((file) => file.startsWith("features/secrets/"))).toEqual([
    "features/secrets/configured-references.ts",
  ])
})

/** Files that a running svc imports on demand. */
const LATER = [
  "app/service.ts",
  "app/reload-loop.ts",
  "app/inbound-auth.ts",
  "features/tools/internal-tools.ts",
  "features/results/stored-results.ts",
  "features/rest/api.ts",
  "features/results/read-result.ts",
]

const filesOf = (entries: readonly string[]): readonly string[] =>
  loadedBy(entries.map((entry) => join(SRC, entry))).files.map((file) => relative(SRC, file).replaceAll("\\", "/"))

const importsOf = (entries: readonly string[]): readonly string[] => loadedBy(entries).imports

/** Returns the packages, modules and files that the files load with static imports, directly or through other files. */
function loadedBy(entries: readonly string[]): {
  readonly imports: readonly string[]
  readonly files: readonly string[]
} {
  const transpiler = new Bun.Transpiler({ loader: "ts" })
  const files = new Set(entries)
  const imports = new Set<string>()
  // Iterating over a set also visits entries that are added meanwhile.
  for (const file of files) {
    if (!file.endsWith(".ts")) continue
    for (const { kind, path } of transpiler.scanImports(readFileSync(file, "utf8"))) {
      if (kind !== "import-statement") continue
      if (path.startsWith(".")) files.add(join(dirname(file), path))
      else imports.add(path)
    }
  }
  return { imports: [...imports].sort(), files: [...files] }
}
