import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { dropExecutablePages, unchangedRanges } from "../../src/app/executable-pages.ts"

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

test("only ranges of the executable that cannot differ from its file are given back [process:idle]", () => {
  expect(unchangedRanges(SMAPS, "/opt/my svc")).toEqual([
    [0x200000, 0x201000],
    [0x201000, 0x203000],
  ])
})

test.skipIf(process.platform !== "linux")(
  "a process goes on after it has given back its executable [process:idle]",
  () => {
    const before = executableResident()
    dropExecutablePages()
    expect(executableResident()).toBeLessThan(before / 2)
    expect(JSON.parse('{"still":["running"]}')).toEqual({ still: ["running"] })
  },
)

/** Kilobytes of this process's executable code that are resident. */
const executableResident = (): number =>
  Number(
    new RegExp(` r-xp .*${RegExp.escape(process.execPath)}\nSize:.*\n(?:.*\n){2}Rss: +(\\d+)`).exec(
      readFileSync("/proc/self/smaps", "latin1"),
    )?.[1],
  )
