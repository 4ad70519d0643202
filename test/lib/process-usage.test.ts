import { expect, test } from "bun:test"
import { memoryText, millisecondsOf, usageOf } from "../../src/lib/process-usage.ts"

test.skipIf(process.platform === "win32")(
  "the tree of a process is measured, and a process that does not exist is not [usage:tree]",
  async () => {
    await using child = Bun.spawn(["sh", "-c", "sleep 60 & echo ready; wait"], { stdout: "pipe" })
    await child.stdout.getReader().read()
    const found = usageOf([process.pid, child.pid, 2 ** 22 + 1])
    expect([...found.keys()].sort()).toEqual([process.pid, child.pid].sort())
    const [own, tree] = [found.get(process.pid), found.get(child.pid)]
    expect(own?.memory).toBeGreaterThan(10_000_000)
    // This process has started the other one.
    expect(own?.memory ?? 0).toBeGreaterThan(tree?.memory ?? 0)
    expect(tree?.memory).toBeGreaterThan(100_000)
    expect(own?.cpu).toBeGreaterThan(0)
    expect(usageOf([]).size).toBe(0)
  },
)

test("times of ps and amounts of memory are read and written [usage:tree]", () => {
  expect(["0:01.50", "01:02:03", "2-00:00:01"].map(millisecondsOf)).toEqual([1500, 3_723_000, 172_801_000])
  expect([5_000_000, 1024 ** 3 * 1.25].map(memoryText)).toEqual(["5 MB", "1.3 GB"])
})
