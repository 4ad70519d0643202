import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { bundleIn, dropExecutablePages, type ReadSlice, unchangedRanges } from "../../src/app/executable-pages.ts"

const SMAPS = `00200000-00201000 r--p 00000000 08:01 42                         /opt/my svc
Rss:                   4 kB
Anonymous:             0 kB
00201000-00203000 r-xp 00001000 08:01 42                         /opt/my svc
Rss:                   8 kB
Anonymous:             0 kB
00203000-00204000 r--p 00003000 08:01 42                         /opt/my svc
Rss:                   4 kB
Anonymous:             4 kB
00204000-00205000 rw-p 00004000 08:01 42                         /opt/my svc
Rss:                   4 kB
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 08:01 43                 /lib/libc.so.6
Rss:                   4 kB
Anonymous:             0 kB
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             4 kB
`

test("only ranges of the executable that cannot differ from its file are returned to the system [process:idle]", () => {
  expect(unchangedRanges(SMAPS, "/opt/my svc")).toEqual([
    [0x200000, 0x201000],
    [0x201000, 0x203000],
  ])
  // An update has put another file at its path.
  expect(unchangedRanges(SMAPS.replaceAll("my svc", "my svc (deleted)"), "/opt/my svc")).toEqual([])
})

describe("the bundle in an executable [process:idle]", () => {
  test("is its section, without pages that it shares with others", () => {
    expect(bundleIn(executable(2, ".bun"), 0x1000)).toEqual([0x7000, 0x9000])
    expect(bundleIn(executable(2, ".bun"), 0x4000)).toBeUndefined()
  })

  test("is unknown if the system chooses the addresses, without the section, and in another format", () => {
    expect(bundleIn(executable(3, ".bun"), 0x1000)).toBeUndefined()
    expect(bundleIn(executable(2, ".bung"), 0x1000)).toBeUndefined()
    expect(bundleIn(executable(2, ".data"), 0x1000)).toBeUndefined()
    expect(bundleIn((_at, length) => Buffer.alloc(length, 0xcf), 0x1000)).toBeUndefined()
  })
})

test.skipIf(process.platform !== "linux")(
  "a process continues after it has returned the pages of its executable [process:idle]",
  () => {
    const before = executableResident()
    dropExecutablePages()
    expect(executableResident()).toBeLessThan(before / 2)
    expect(JSON.parse('{"still":["running"]}')).toEqual({ still: ["running"] })
  },
)

/** Returns the resident kilobytes of this process's executable code. */
const executableResident = (): number =>
  Number(
    new RegExp(` r-xp .*${RegExp.escape(process.execPath)}\nSize:.*\n(?:.*\n){2}Rss: +(\\d+)`).exec(
      readFileSync("/proc/self/smaps", "latin1"),
    )?.[1],
  )

/** Returns an ELF file of this type whose section of this name has the addresses from 0x6f00 to 0x9abc. */
function executable(type: number, name: string): ReadSlice {
  const names = Buffer.from(`\0.shstrtab\0${name}\0`)
  const file = Buffer.alloc(64 + 3 * 64 + names.length)
  file.writeUInt32BE(0x7f454c46, 0)
  file.writeUInt16LE(type, 16)
  file.writeBigUInt64LE(64n, 40)
  file.writeUInt16LE(3, 60)
  file.writeUInt16LE(1, 62)
  const section = (index: number, nameAt: number, [address, offset, size]: readonly [number, number, number]) => {
    file.writeUInt32LE(nameAt, 64 + index * 64)
    file.writeBigUInt64LE(BigInt(address), 64 + index * 64 + 16)
    file.writeBigUInt64LE(BigInt(offset), 64 + index * 64 + 24)
    file.writeBigUInt64LE(BigInt(size), 64 + index * 64 + 32)
  }
  section(1, 1, [0, 64 + 3 * 64, names.length])
  section(2, 11, [0x6f00, 0x1000, 0x9abc - 0x6f00])
  names.copy(file, 64 + 3 * 64)
  return (at, length) => file.subarray(at, at + length)
}
