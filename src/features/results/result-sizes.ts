/** Counts the sizes of each tool's results. Recording costs a look-up and an addition, because it runs for every call. */

import type { ReportedSizes, ToolResultSizes } from "../../report/status.ts"

export class ResultSizes implements ReportedSizes {
  private readonly servers = new Map<string, Map<string, Counters>>()
  private tools = 0
  /** How many tools have had a large result; lists of tools mention its size. */
  large = 0

  /** Counts a result of `bytes`. Tools beyond MAX_TOOLS are not counted. */
  record(server: string, tool: string, bytes: number): void {
    const counters = this.servers.get(server)?.get(tool) ?? this.add(server, tool)
    if (counters === undefined) return
    counters.count++
    const bucket = bucketOf(bytes)
    counters.buckets[bucket] = (counters.buckets[bucket] as number) + 1
    if (bytes <= counters.largest) return
    if (bytes > LARGE_BYTES && counters.largest <= LARGE_BYTES) this.large++
    counters.largest = bytes
  }

  /** Counts a result of which only a part was returned. */
  recordCut(server: string, tool: string): void {
    const counters = this.servers.get(server)?.get(tool) ?? this.add(server, tool)
    if (counters !== undefined) counters.cut++
  }

  /** Returns the largest result of a tool in bytes if it was large; undefined otherwise. */
  largeOf(server: string, tool: string): number | undefined {
    const largest = this.servers.get(server)?.get(tool)?.largest ?? 0
    return largest > LARGE_BYTES ? largest : undefined
  }

  report(server?: string): readonly ToolResultSizes[] {
    return [...this.servers]
      .filter(([name]) => server === undefined || name === server)
      .flatMap(([name, tools]) =>
        [...tools].map(([tool, { count, cut, largest, buckets }]) => ({
          server: name,
          tool,
          count,
          p50: Math.min(percentile(buckets, count, 0.5), largest),
          p99: Math.min(percentile(buckets, count, 0.99), largest),
          largest,
          cut,
        })),
      )
      .sort((one, other) => other.p99 - one.p99 || other.largest - one.largest)
  }

  // ---

  private add(server: string, tool: string): Counters | undefined {
    if (this.tools >= MAX_TOOLS) return undefined
    this.tools++
    const tools = this.servers.get(server) ?? new Map<string, Counters>()
    this.servers.set(server, tools)
    const counters = { count: 0, cut: 0, largest: 0, buckets: new Uint32Array(BUCKETS) }
    tools.set(tool, counters)
    return counters
  }
}

// ---

type Counters = { count: number; cut: number; largest: number; readonly buckets: Uint32Array }

const MAX_TOOLS = 5000
/** Buckets of each doubling. */
const STEPS = 4
const BUCKETS = 33 * STEPS
/** About 25,000 tokens, the size at which clients truncate results. */
const LARGE_BYTES = 100_000

const bucketOf = (bytes: number): number => Math.min(BUCKETS - 1, Math.ceil(Math.log2(Math.max(1, bytes)) * STEPS))

function percentile(buckets: Uint32Array, count: number, part: number): number {
  let seen = 0
  const at = buckets.findIndex((number) => {
    seen += number
    return seen >= count * part && seen > 0
  })
  return at < 0 ? 0 : Math.floor(2 ** (at / STEPS))
}
