import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { PORTABLE, UNPORTABLE } from "./portable.ts"

test("every test that a platform leaves out exists", () => {
  const texts = PORTABLE.windows
    .map((name) => readFileSync(join(import.meta.dir, "..", "e2e", `${name}.test.ts`), "utf8"))
    .join()
  expect(UNPORTABLE.map(({ title }) => title).filter((title) => !texts.includes(`"${title}`))).toEqual([])
})
