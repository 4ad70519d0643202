import { expect, test } from "bun:test"
import { type CancelledTimes, extendSteadyRow, isSteady, type SteadyRow } from "../../src/backend/steady-row.ts"

type Row = SteadyRow<CancelledTimes>

/** The row of calls that ask at second 1, 2, …, `after` milliseconds after they began. */
const rowOf = (calls: readonly { after: number; suspects?: CancelledTimes[]; quiet?: boolean }[]): Row =>
  calls.reduce<Row | undefined>(
    (row, { after, suspects = [], quiet = false }, index) =>
      extendSteadyRow(row, { at: (index + 1) * 1000, suspects, quiet }, after),
    undefined,
  ) as Row

test("the example of the header: a cancelled call fits two requests and not the third", () => {
  const calls = [
    { after: 200, suspects: [{ cancelledAt: 500, ran: 400 }] },
    { after: 210, suspects: [{ cancelledAt: 1900, ran: 805 }] },
    { after: 190, suspects: [{ cancelledAt: -600, ran: 400 }] },
  ]
  expect(rowOf(calls.slice(0, 2))).toMatchObject({ count: 2, least: 200, delays: [{ since: "begin", ms: 900 }] })
  expect(rowOf(calls)).toMatchObject({ count: 3, least: 190, most: 210, delays: [] })
})

test("a time since a beginning never equals one since a cancellation", () => {
  // 300 ms after its beginning, then 300 ms after a cancellation.
  const calls = [
    { after: 200, suspects: [{ cancelledAt: 900, ran: 200 }] },
    { after: 200, suspects: [{ cancelledAt: 1700, ran: 500 }] },
  ]
  expect(rowOf(calls).delays).toEqual([])
})

test("eight calls make a row steady, four if no call was cancelled, and one that does not fit begins anew", () => {
  const times = (count: number, quiet: boolean) => Array.from({ length: count }, () => ({ after: 200, quiet }))
  expect([7, 8].map((count) => isSteady(rowOf(times(count, false))))).toEqual([false, true])
  expect([3, 4].map((count) => isSteady(rowOf(times(count, true))))).toEqual([false, true])
  expect(rowOf([...times(8, false), { after: 900 }])).toMatchObject({ count: 1, least: 900, most: 900 })
})
