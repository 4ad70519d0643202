/** The order in which a replica leaves its cluster. */
import { expect, test } from "bun:test"
import { leaveCluster } from "../../../src/features/cluster/leave-cluster.ts"
import { manualClock } from "../../clock.ts"

/** A replica that begins to leave, with a call that runs there and one that it has passed on. */
function leave({ isLast = false } = {}) {
  const clock = manualClock()
  const start = clock.now()
  const did: (readonly [what: string, at: number])[] = []
  const note = (what: string) => did.push([what, clock.now() - start])
  const own = Promise.withResolvers<void>()
  const state = { pending: 2 }
  const streams = new Set([{ keepAlive() {}, close() {}, drain: () => note("streams drain") }])
  void leaveCluster(
    {
      agent: { drained: () => own.promise },
      leases: { drain() {}, leave: async (ms: number) => void note(`leases pass on within ${ms}`) },
      streams,
      listening: { refuse: async () => void note("refuses connections"), pending: () => state.pending },
    },
    {
      drain: () => void note("says that it stops"),
      leave() {
        note("leaves new work to others")
        return !isLast
      },
    },
    { drainDelay: 3000, shutdownGrace: 10_000 },
    clock,
  ).then(() => note("may end"))
  return { clock, did, own, state }
}

const BEFORE = [
  ["says that it stops", 0],
  ["leaves new work to others", 3000],
] as const

test("a replica refuses connections when its own calls have ended, and ends when the calls that it passed on are answered [cluster:drain:traffic]", async () => {
  const { clock, did, own, state } = leave()
  await clock.pass(4000)
  const first = [...BEFORE, ["leases pass on within 7500", 3000], ["streams drain", 3000]] as const
  expect(did).toEqual([...first])
  own.resolve()
  await clock.pass(1000)
  expect(did).toEqual([...first, ["refuses connections", 4000]])
  // What is left is the stream, which may last.
  state.pending = 1
  await clock.pass(1000)
  expect(did.slice(-2)).toEqual([
    ["refuses connections", 4000],
    ["may end", expect.any(Number)],
  ])
})

test("a call that does not end leaves time for calls that were passed on, and the whole takes at most the grace [cluster:drain:traffic]", async () => {
  const { clock, did } = leave()
  await clock.pass(60_000)
  expect(did.slice(-2)).toEqual([
    ["refuses connections", 3000 + 7500],
    ["may end", 3000 + 10_000],
  ])
})

test("the last replica refuses connections at once [cluster:drain:traffic]", async () => {
  const { clock, did } = leave({ isLast: true })
  await clock.pass(3000)
  expect(did).toEqual([...BEFORE, ["refuses connections", 3000], ["streams drain", 3000]])
})
