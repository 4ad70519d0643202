/**
 * Rule 7 of attribution (attribution.ts): a row of calls of one kind that each sent one server request equally long after they
 * began. For example, a tool that asks 200 ms after it began:
 *
 *     call   asked after   a cancelled call of another client, seen from the server request
 *     1      200 ms        began 900 ms, was cancelled 500 ms before it
 *     2      210 ms        began 905 ms, was cancelled 100 ms before it
 *     3      190 ms        began 4000 ms, was cancelled 3600 ms before it
 *
 * The calls fit: 190 to 210 ms. After call 2, the beginning of the cancelled call fits as well (900 and 905 ms), so the cancelled
 * call could have sent the request; after call 3, it does not fit any more. A row that is long enough, and that no cancelled call
 * fits, shows that its calls sent the server requests.
 *
 * Deterministic: times are parameters.
 */

/** A time from a cancelled call to a server request. */
type Delay = { readonly since: "begin" | "cancel"; readonly ms: number }

/** The times of a cancelled call that the rule needs. */
export type CancelledTimes = {
  readonly cancelledAt: number
  /** Milliseconds from sending to cancelling it. */
  readonly ran: number
}

/** The only server request of a call. */
type SoleServerRequest<Suspect extends CancelledTimes> = {
  readonly at: number
  /** The cancelled calls that may have sent it. */
  readonly suspects: Suspect[]
  /** Whether no call was cancelled for so long that the request is certainly the call's. */
  readonly quiet: boolean
}

export type SteadyRow<Suspect extends CancelledTimes> = {
  readonly count: number
  /** The shortest and the longest time from a call to its server request. */
  readonly least: number
  readonly most: number
  /** The times from cancelled calls to the server requests that are equally long for each request of the row. */
  readonly delays: readonly Delay[]
  /** The suspects of each request that is not explained yet. */
  readonly suspects: Suspect[][]
}

/** Returns the row with one more call, or a new row if the call does not fit. `after`: from the call to its request. */
export function extendSteadyRow<Suspect extends CancelledTimes>(
  row: SteadyRow<Suspect> | undefined,
  { suspects, quiet, at }: SoleServerRequest<Suspect>,
  after: number,
): SteadyRow<Suspect> {
  const delays = quiet ? [] : delaysTo(at, suspects)
  const count = quiet ? QUIET_CALLS : 1
  const least = Math.min(row?.least ?? after, after)
  const most = Math.max(row?.most ?? after, after)
  if (row === undefined || most - least > Math.max(STEADY_MS, most / 4))
    return { count, least: after, most: after, delays, suspects: [suspects] }
  return {
    count: Math.min(row.count + count, STEADY_ROW),
    least,
    most,
    delays: row.delays.filter((delay) => delays.some((other) => areEqual(delay, other))),
    suspects: [...row.suspects, suspects].slice(-STEADY_ROW),
  }
}

/** Whether the row shows that its calls sent the server requests. */
export const isSteady = ({ count, delays }: SteadyRow<CancelledTimes>): boolean =>
  count >= STEADY_ROW && delays.length === 0

// ---

/** The number of calls in a row that must have sent their server request equally long after they began. */
const STEADY_ROW = 8
/** The count of a call if no cancelled call can have sent its server request. */
const QUIET_CALLS = 2
/** The tolerance of "equally long": this, or a quarter of the time. */
const STEADY_MS = 40

const delaysTo = (at: number, suspects: readonly CancelledTimes[]): readonly Delay[] =>
  suspects.flatMap(({ cancelledAt, ran }): Delay[] => [
    { since: "begin", ms: at - cancelledAt + ran },
    { since: "cancel", ms: at - cancelledAt },
  ])

const areEqual = (one: Delay, other: Delay): boolean =>
  one.since === other.since && Math.abs(one.ms - other.ms) <= STEADY_MS
