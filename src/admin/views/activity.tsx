/** The calls of the last hour: charts by minute, totals by tool, and the last calls. */
import { BarChart } from "../chart.tsx"
import { useStateOf } from "../context.ts"
import { useCountedPeriod, useNow } from "../hooks.ts"
import { Choice, countText, Empty, Head, latencyText, numberText, Table } from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import type { Activity } from "../types.ts"
import { LastCalls } from "./last-calls.tsx"

/** The activity of all servers, or of one server (`#/activity/NAME`). */
export function ActivityView({ route }: { route: Route }) {
  const activity = useStateOf((state) => state.activity)
  const now = useNow(10_000)
  const period = useCountedPeriod()
  const [, wanted = ""] = route.path
  const servers = [...new Set(activity.map(({ server }) => server)), ...(wanted === "" ? [] : [wanted])]
  const shown = activity.filter(({ server }) => wanted === "" || server === wanted)
  const minutes = minutesOf(shown, now)
  const calls = shown.reduce((sum, one) => sum + one.calls, 0)
  const errors = shown.reduce((sum, one) => sum + one.errors, 0)
  const longest = Math.max(0, ...shown.map(({ maxMs }) => maxMs))
  return (
    <>
      <Head title="Activity">
        <Choice
          label="Server"
          value={wanted}
          options={[["", "All servers"], ...[...new Set(servers)].sort().map((name) => [name, name] as const)]}
          onChange={(name) => goTo(["activity", ...(name === "" ? [] : [name])])}
        />
      </Head>
      <p class="soft">
        Calls {period}. svc starts to count when this page or REST is first used, and keeps only the last hour, in
        memory.
      </p>
      <div class="beside">
        <BarChart
          title="Calls per minute"
          summary={`${countText(calls, "call")} ${period}, ${numberText(errors)} failed`}
          bars={minutes.map(({ at, calls: all, errors: failed }) => ({
            at,
            parts: [
              { name: "succeeded", value: all - failed, tone: "plain" },
              { name: "failed", value: failed, tone: "bad" },
            ],
          }))}
          format={numberText}
        />
        <BarChart
          title="Latency"
          summary={calls === 0 ? `no calls ${period}` : `the longest call took ${latencyText(longest)}`}
          bars={minutes.map(({ at, meanMs, maxMs }) => ({
            at,
            parts: [
              { name: "mean", value: meanMs, tone: "plain" },
              { name: "longest", value: Math.max(0, maxMs - meanMs), total: maxMs, tone: "faint" },
            ],
          }))}
          format={latencyText}
        />
      </div>
      <h2>Tools</h2>
      <ToolSums activity={shown} period={period} />
      <LastCalls server={wanted} />
    </>
  )
}

// ---

const MINUTE_MS = 60_000
const MINUTES = 60

type Sum = { calls: number; errors: number; totalMs: number; maxMs: number }

const add = (sum: Sum, { calls, errors, meanMs, maxMs }: Activity): Sum => ({
  calls: sum.calls + calls,
  errors: sum.errors + errors,
  totalMs: sum.totalMs + meanMs * calls,
  maxMs: Math.max(sum.maxMs, maxMs),
})
const NOTHING: Sum = { calls: 0, errors: 0, totalMs: 0, maxMs: 0 }

/** Returns the totals of each of the last 60 minutes, oldest first, including minutes without calls. */
function minutesOf(activity: readonly Activity[], now: number) {
  const last = now - (now % MINUTE_MS)
  const byMinute = Map.groupBy(activity, ({ minute }) => Date.parse(minute))
  return Array.from({ length: MINUTES }, (_, index) => {
    const at = last - (MINUTES - 1 - index) * MINUTE_MS
    const sum = (byMinute.get(at) ?? []).reduce(add, NOTHING)
    return { at, ...sum, meanMs: sum.calls === 0 ? 0 : sum.totalMs / sum.calls }
  })
}

function ToolSums({ activity, period }: { activity: readonly Activity[]; period: string }) {
  const sums = [...Map.groupBy(activity, ({ server, tool }) => `${server} ${tool}`)].map(([key, entries]) => ({
    key,
    server: entries[0]?.server ?? "",
    tool: entries[0]?.tool ?? "",
    ...entries.reduce(add, NOTHING),
  }))
  if (sums.length === 0) return <Empty>No tool has been called {period}.</Empty>
  return (
    <Table
      caption={`Calls ${period}, by tool`}
      items={sums.sort((one, other) => other.calls - one.calls || (one.key < other.key ? -1 : 1))}
      keyOf={({ key }) => key}
      columns={[
        {
          title: "Tool",
          kind: "name",
          draw: ({ server, tool }) => (
            <>
              <a class="crumb" href={linkTo(["servers", server])}>
                {server} /{" "}
              </a>
              {tool}
            </>
          ),
        },
        { title: "Calls", kind: "number", draw: ({ calls }) => numberText(calls) },
        {
          title: "Errors",
          kind: "number",
          draw: ({ errors, calls }) => (
            <span class={errors > 0 ? "error-text" : "soft"}>
              {numberText(errors)}
              {errors > 0 && ` (${Math.round((100 * errors) / calls)} %)`}
            </span>
          ),
        },
        { title: "Mean latency", kind: "number", draw: ({ totalMs, calls }) => latencyText(totalMs / calls) },
        { title: "Longest", kind: "wide number", draw: ({ maxMs }) => latencyText(maxMs) },
      ]}
    />
  )
}
