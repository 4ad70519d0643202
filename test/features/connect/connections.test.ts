import { expect, test } from "bun:test"
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { asOneChange } from "../../../src/features/connect/client-connection.ts"
import {
  addConnection,
  backUpClientFile,
  findClientTemporaries,
  readConnections,
} from "../../../src/features/connect/connections.ts"
import { pathsOf } from "../../../src/store/paths.ts"
import { manualClock } from "../../clock.ts"

test("of many changes, the first one of each file stays, with the user's own file [connect:undo]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-connections-"))
  const clock = manualClock()
  const where = { platform: "linux", home: folder, appData: undefined, cwd: folder }
  const paths = pathsOf({ config: undefined, directory: folder, ...where })
  const change = async (file: string, text: string) => {
    writeFileSync(file, text)
    const copy = backUpClientFile(paths, "cursor", file, clock)
    await clock.pass(1)
    const time = new Date(clock.now()).toISOString()
    await addConnection(paths, { client: "cursor", scope: "user", file, time, ...copy, digest: "", places: [] }, clock)
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

test("only old temporary files of files that svc has changed, and of their backups, are found [connect:leftovers]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-connections-"))
  const clock = manualClock()
  const where = { platform: "linux", home: folder, appData: undefined, cwd: folder }
  const directory = join(folder, "svc")
  const paths = pathsOf({ config: undefined, directory, ...where })
  expect(findClientTemporaries(paths, clock.now())).toEqual([])
  const [client, target] = ["client", "target"].map((name) => join(folder, name)) as [string, string]
  for (const one of [client, target]) mkdirSync(one)
  const [plain, linked] = [join(client, "mcp.json"), join(client, "linked.json")]
  writeFileSync(join(target, "real.json"), "{}")
  symlinkSync(join(target, "real.json"), linked)
  const about = { client: "cursor", scope: "user" as const, backup: null, digest: "", places: [] }
  for (const file of [plain, linked]) await addConnection(paths, { ...about, file, time: file }, clock)
  const backups = join(directory, "backups", "clients")
  mkdirSync(backups, { recursive: true })
  const at = (path: string, seconds: number) => {
    writeFileSync(path, "KEY")
    const time = clock.now() / 1000 - seconds
    utimesSync(path, time, time)
    return path
  }
  const hex = "0123456789ab"
  const left = [
    at(join(client, `.mcp.json.${hex}.tmp`), 100),
    at(join(target, `.real.json.${hex}.tmp`), 100),
    at(join(backups, `.cursor-x-mcp.json.${hex}.tmp`), 100),
  ]
  at(join(client, ".mcp.json.ba9876543210.tmp"), 10)
  for (const name of [`.other.json.${hex}.tmp`, ".mcp.json.tmp", `mcp.json.${hex}.tmp`, `.mcp.json.${hex}0.tmp`])
    at(join(client, name), 100)
  symlinkSync(plain, join(client, ".mcp.json.aaaaaaaaaaaa.tmp"))
  expect(findClientTemporaries(paths, clock.now()).toSorted()).toEqual(left.toSorted())
  rmSync(folder, { recursive: true })
})

test("several changes as one name each place once, as svc left it last [connect:undo]", () => {
  const about = { client: "gemini", scope: "user", file: "/f", time: "", backup: null, digest: "x" } as const
  const [list, entry] = [
    ["mcp", "allowed"],
    ["mcpServers", "svc"],
  ] as const
  const change = (...places: [readonly string[], string | null][]) => ({
    ...about,
    places: places.map(([path, digest]) => ({ path: [...path], digest })),
  })
  expect(asOneChange([change([list, "1"], [entry, "2"]), change([list, "3"]), change([list, "4"])])).toEqual({
    ...change([list, "4"], [entry, "2"]),
    digest: "",
  })
})
