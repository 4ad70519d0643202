import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { version } from "../../package.json"
import { changesOf } from "../../scripts/release/changelog.ts"

const DATE = new Date("2026-03-04T05:06:07Z")
const TEXT = "# Changelog\n\n## 1.2.30\n\n- newest\n\n## 1.2.3\n\n### Serving\n- a\n\n## 1.2.2\n\n## 1.2.1\n- old\n"

test("the notes of a release are its section of the changelog", () => {
  expect(changesOf(TEXT, "1.2.3", DATE)).toBe("## 1.2.3 (2026-03-04)\n\n### Serving\n- a\n")
  expect(changesOf(TEXT, "1.2.1", DATE)).toBe("## 1.2.1 (2026-03-04)\n\n- old\n")
})

test("a version without changes is refused", () => {
  for (const missing of ["1.2.2", "1.2", "2.0.0"]) expect(() => changesOf(TEXT, missing, DATE)).toThrow(missing)
})

test("the changelog has the version of this program", () => {
  const changelog = readFileSync(join(import.meta.dir, "..", "..", "CHANGELOG.md"), "utf8")
  expect(changesOf(changelog, version, DATE)).toStartWith(`## ${version} (2026-03-04)\n\n###`)
})
