import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { purge } from "../../../src/features/system/purge.ts"
import { UnavailableError } from "../../../src/lib/errors.ts"

test("a purge that cannot create the folder for what it moves removes nothing, and says why [cli:uninstall:keeps]", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-purge-"))
  const names = [".env", "mcp.json", "sessions.sqlite", "taken"]
  for (const name of names) writeFileSync(join(folder, name), "{}")
  const place = join(folder, "taken", "svc-backup")
  expect(() => purge(folder, place)).toThrow(UnavailableError)
  expect(() => purge(folder, place)).toThrow(`cannot create ${place}: `)
  expect(readdirSync(folder).sort()).toEqual(names)
})
