/** What the optional features cost a call: each alone, and the common ones together. */
import { shortCallsOf, startFull, WATCHED, warmUp, watchedServer } from "./calls.ts"
import { digits, type Figure, type Measured } from "./figure.ts"
import { interleave, over, overProcesses, type Rig } from "./rig.ts"
import { FOLDER, startSink, startSvc, stdio, type Target } from "./targets.ts"

const CALLERS = 64
const WINDOWS = 5
const TOGETHER = "supervision, metrics, audit log, rate limits and tags together"

/** Measures the throughput that features cost, in short windows in turn. The activity is on by default, so it is off elsewhere. */
export async function measureStages(rig: Rig, rounds: number): Promise<Measured> {
  await using sink = await startSink()
  const features = featuresOf(`http://127.0.0.1:${sink.port}`)
  const counts = await overProcesses(rounds, async () => {
    await using stack = new AsyncDisposableStack()
    const measures: Record<string, Awaited<ReturnType<typeof shortCallsOf>>> = {}
    for (const [name, { start }] of Object.entries({ none: { start: () => plain() }, ...features })) {
      const target = stack.use(await start())
      await warmUp(rig, target)
      measures[name] = await shortCallsOf(rig, target, CALLERS)
    }
    return await interleave(WINDOWS, measures)
  })
  const none = counts.none ?? []
  const rate = (name: string) => digits(over(counts[name] ?? [], (count) => count.rate))
  return {
    figures: Object.entries(features).map(
      ([name, { aim }]): Figure => ({
        what: `throughput lost to ${name}`,
        value: (1 - over(counts[name] ?? [], (count, n) => count.rate / (none[n]?.rate ?? Number.NaN))) * 100,
        unit: "%",
        ...(aim === undefined ? {} : { aim }),
        from: `${rate(name)}/s with, ${rate("none")}/s without`,
      }),
    ),
  }
}

// ---

type Feature = { readonly start: () => Promise<Target>; readonly aim?: Figure["aim"] }

/** The features, and the most that each may cost in percent. `receiver`: where traces go. */
function featuresOf(receiver: string): Readonly<Record<string, Feature>> {
  const traced = (share: string) =>
    plain(["--otlp-endpoint", receiver], {
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: share,
      OTEL_METRICS_EXPORTER: "none",
    })
  return {
    "a rate limit of sessions": { start: () => plain(["--session-rate-limit", "10000000"]) },
    "the selection by a tag": {
      start: () => startSvc({ echo: { ...stdio(), tags: ["bench"] } }, [...PLAIN, "--filter", "bench"]),
    },
    metrics: { start: () => plain(["--metrics"]) },
    "the audit log": { start: () => plain(["--audit-log", `${FOLDER}/audit.jsonl`]) },
    "a result budget that no result exceeds": { start: () => plain(["--result-budget", "20000"]), aim: { most: 3 } },
    "the activity with names": { start: () => plain(["--activity", "names"]), aim: { most: 2 } },
    "the activity with content": { start: () => plain(["--activity", "content"]), aim: { most: 5 } },
    "traces of 1 % of the calls": { start: () => traced("0.01"), aim: { most: 1 } },
    "traces of all calls": { start: () => traced("1"), aim: { most: 15 } },
    [TOGETHER]: { start: () => startSvc({ echo: watchedServer }, [...PLAIN, ...WATCHED]), aim: { most: 5 } },
    "the same, the activity, sessions on disk and redaction": { start: startFull },
  }
}

const PLAIN = ["--no-persist", "--activity", "off"]

const plain = (flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<Target> =>
  startSvc({ echo: stdio() }, [...(flags.includes("--activity") ? ["--no-persist"] : PLAIN), ...flags], {}, env)
