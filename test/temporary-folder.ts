/** Gives each run of the tests a temporary folder of its own, and removes it at the end with everything that tests left in it. */
import { afterAll } from "bun:test"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const folder = mkdtempSync(join(tmpdir(), "svc-test-"))
// One test runs svc as another user.
chmodSync(folder, 0o711)
process.env.TMPDIR = folder
// Bun under Wine cannot remove the folder; test/platforms/run.ts does.
if (process.platform !== "win32") afterAll(() => rmSync(folder, { recursive: true, force: true }))
