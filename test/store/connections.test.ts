import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { addConnection, backUpClientFile, readConnections } from "../../src/store/connections.ts"
import { pathsOf } from "../../src/store/paths.ts"
import { manualClock } from "../clock.ts"

test("of many changes, the first one of each file stays, with the user's own file [connect:undo]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-connections-"))
  const clock = manualClock()
  const where = { platform: "linux", home: folder, appData: undefined, cwd: folder }
  const paths = pathsOf({ config: undefined, directory: folder, ...where })
  const change = async (file: string, text: string) => {
    writeFileSync(file, text)
    const backup = backUpClientFile(paths, "cursor", file, clock)
    await clock.pass(1)
    const time = new Date(clock.now()).toISOString()
    await addConnection(paths, { client: "cursor", scope: "user", file, time, backup, digest: "", places: [] }, clock)
  }
  const [one, two] = [join(folder, "one.json"), join(folder, "two.json")]
  await change(one, "the user's one")
  await change(two, "the user's two")
  for (let number = 0; number < 60; number++) await change(one, String(number))
  const kept = readConnections(paths)
  const texts = kept.map(({ backup }) => readFileSync(backup ?? "", "utf8"))
  expect(texts).toEqual(["the user's one", "the user's two", ...Array.from({ length: 48 }, (_, at) => String(at + 12))])
  expect(readdirSync(join(folder, "backups", "clients"))).toHaveLength(50)
  rmSync(folder, { recursive: true })
})
