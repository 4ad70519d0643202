/** Durations by labels, in a bounded number of series. */
import type { Labels, Point } from "./metric-family.ts"

/** The values of the labels in their order; undefined for a label that does not apply. */
type Values = readonly Value[]
type Value = string | number | undefined

export type DurationOptions = {
  readonly labels: readonly string[]
  /** The upper bounds of the buckets, in seconds. */
  readonly bounds: readonly number[]
  /** How many series have labels of their own. */
  readonly most: number
  /**
   * What durations beyond that count as, coarser from one to the next: the last must have few series, and each other one gets
   * RESERVE.
   */
  readonly coarser: readonly ((values: Values) => Values)[]
  /** What follows from the labels. */
  implied?(labels: Labels): Labels
}

/** One series. `buckets` are not cumulative: each duration is in one. */
type Series = { readonly values: Values; readonly buckets: number[]; sum: number }

export class Durations {
  private readonly series: Series[] = []
  /** The series by the values of their labels, one after the other: joining them to a key would take three times as long. */
  private readonly tree: Branch = new Map()

  constructor(private readonly options: DurationOptions) {}

  record(values: Values, seconds: number): void {
    const { bounds } = this.options
    const series = this.find(values)
    series.sum += seconds
    let bucket = 0
    while (bucket < bounds.length && seconds > (bounds[bucket] as number)) bucket++
    ;(series.buckets[bucket] as number)++
  }

  points(): readonly Point[] {
    const { labels: names, bounds, implied } = this.options
    return this.series.map(({ values, buckets, sum }) => {
      const labels: Labels = Object.fromEntries(
        names.flatMap((name, at) => {
          const value = values[at]
          return value === undefined ? [] : [[name, value]]
        }),
      )
      return {
        labels,
        bounds,
        buckets: [...buckets],
        sum,
        ...(implied === undefined ? {} : { implied: implied(labels) }),
      }
    })
  }

  // ---

  private find(values: Values): Series {
    const { bounds, coarser, most } = this.options
    for (let level = 0, wanted = values; ; level++) {
      const found = seriesAt(this.tree, wanted)
      if (found !== undefined) return found
      if (level === coarser.length || this.series.length < most + level * RESERVE) {
        const series = { values: wanted, buckets: [...bounds, 0].map(() => 0), sum: 0 }
        this.series.push(series)
        addSeries(this.tree, wanted, series)
        return series
      }
      wanted = coarser[level]?.(values) ?? wanted
    }
  }
}

/** What names beyond the bounds are counted as. */
export const OTHER = "other"
/** A kind of failure beyond the bounds, by the conventions of OpenTelemetry. */
export const OTHER_ERROR = "_OTHER"

// ---

const RESERVE = 20

/** All series have the same number of labels, so a series is where the values end. */
interface Branch extends Map<Value, Branch | Series> {}

function seriesAt(tree: Branch, values: Values): Series | undefined {
  let at: Branch | Series | undefined = tree
  for (const value of values) at = at instanceof Map ? at.get(value) : undefined
  return at instanceof Map ? undefined : at
}

function addSeries(tree: Branch, values: Values, series: Series): void {
  let at = tree
  for (const value of values.slice(0, -1)) {
    const found = at.get(value)
    const branch: Branch = found instanceof Map ? found : new Map()
    at.set(value, branch)
    at = branch
  }
  at.set(values.at(-1), series)
}
