/** Packages that a start loads before it can answer: every other one is imported where it is used. A cold start pays for each. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"

const SRC = join(import.meta.dir, "..", "src")

test.each([
  ["svc --version", ["main.ts"]],
  ["svc serve, before it listens", ["main.ts", "cli/serve.ts"]],
])("%s loads no packages but those for arguments and the log", (_, entries) => {
  expect(packagesOf(entries.map((entry) => join(SRC, entry)))).toEqual(["citty", "consola/core"])
})

test("the walk finds a package that is loaded through other files", () => {
  expect(packagesOf([join(SRC, "app", "reload-loop.ts")])).toContain("zod")
})

/** Returns the packages that the files load with static imports, their own and those of the files that they import. */
function packagesOf(entries: readonly string[]): readonly string[] {
  const transpiler = new Bun.Transpiler({ loader: "ts" })
  const files = new Set(entries)
  const packages = new Set<string>()
  // A set also visits what is added on the way.
  for (const file of files) {
    if (!file.endsWith(".ts")) continue
    for (const { kind, path } of transpiler.scanImports(readFileSync(file, "utf8"))) {
      if (kind !== "import-statement") continue
      if (path.startsWith(".")) files.add(join(dirname(file), path))
      else if (!/^(?:node|bun)(?::|$)/.test(path)) packages.add(path)
    }
  }
  return [...packages].sort()
}
