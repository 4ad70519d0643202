/** Reading files that another program or a repository may have put in place of a configuration file. */
import { expect, test } from "bun:test"
import { mkdtempSync, realpathSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { UnavailableError } from "../../src/lib/errors.ts"
import { readRegularFile, readText, realTarget } from "../../src/store/files.ts"

const WINDOWS = process.platform === "win32"

function inFolder(run: (folder: string) => void): void {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "svc-files-")))
  try {
    run(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test("only a regular file of limited size is read: no pipe, device, or link to one [files:regular]", () => {
  inFolder((folder) => {
    const at = (name: string) => join(folder, name)
    writeFileSync(at("text"), "text")
    symlinkSync(at("text"), at("link"))
    expect([readText(at("text")), readText(at("link")), readText(at("missing"))]).toEqual(["text", "text", undefined])
    expect(() => readText(folder)).toThrow("directory")
    writeFileSync(at("huge"), "")
    truncateSync(at("huge"), 300 * 1024 * 1024)
    expect(() => readText(at("huge"))).toThrow(/huge: it has 314572800 bytes/)
    if (WINDOWS) return
    symlinkSync("/dev/zero", at("device"))
    Bun.spawnSync(["mkfifo", at("pipe")])
    for (const name of ["device", "pipe"]) {
      expect(() => readRegularFile(at(name))).toThrow(UnavailableError)
      expect(() => readText(at(name))).toThrow(`cannot read ${at(name)}: it is not a regular file`)
    }
  })
})

test("the path of a write is found through links of the file and of its folders, which need not exist [connect:link]", () => {
  inFolder((folder) => {
    const at = (name: string) => join(folder, name)
    writeFileSync(at("real"), "")
    symlinkSync("real", at("link"))
    symlinkSync("gone/file", at("dangling"))
    symlinkSync(".", at("here"))
    expect(["real", "link", "dangling", "here/new", "new/deep/file"].map((name) => realTarget(at(name)))).toEqual(
      ["real", "real", "gone/file", "new", "new/deep/file"].map(at),
    )
  })
})
