/**
 * Fails if svc has become slower: measures svc and the baselines at the same time, and compares their ratios with recorded.json.
 *
 *  1. Only ratios are compared, so that the result does not depend on the machine.
 *  2. If a ratio is 15 % worse, the guard measures again before it fails, because one run on a busy machine says little. The
 *     best run counts.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { measureCallRatios } from "./calls.ts"
import type { Figure } from "./figure.ts"
import { measureListRatio } from "./lists.ts"
import { median, type Rig } from "./rig.ts"

/** Measures the ratios. Returns a line for each, and whether all hold. */
export async function guard(rig: Rig): Promise<{ readonly lines: readonly string[]; readonly holds: boolean }> {
  const recorded = JSON.parse(readFileSync(RECORD, "utf8")) as Recorded
  let best: readonly Figure[] = []
  for (let run = 0; run < MOST_RUNS && !isMet(best, recorded); run++) {
    const figures = await measure(rig)
    best = figures.map((figure, at) => betterOf(figure, best[at] ?? figure))
  }
  const lines = best.map(
    (figure) =>
      `${holds(figure, recorded) ? "ok   " : "WORSE"} ${figure.what}: ${figure.value.toFixed(3)}, recorded ${recorded[figure.what]}; ${figure.from}`,
  )
  return { lines, holds: isMet(best, recorded) }
}

/** Measures the ratios and records their medians. */
export async function record(rig: Rig): Promise<void> {
  const runs: (readonly Figure[])[] = []
  for (let run = 0; run < RECORD_RUNS; run++) runs.push(await measure(rig))
  const entries = (runs[0] ?? []).map(({ what }, at) => [
    what,
    Number(median(runs.map((figures) => figures[at]?.value ?? Number.NaN)).toFixed(3)),
  ])
  writeFileSync(RECORD, `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`)
}

// ---

type Recorded = Readonly<Record<string, number>>

const RECORD = join(import.meta.dir, "recorded.json")
const MOST_RUNS = 4
const RECORD_RUNS = 5
const ROUNDS = 8
const LIST_ROUNDS = 4
const TOLERANCE = 0.15

const measure = async (rig: Rig): Promise<readonly Figure[]> => [
  ...(await measureCallRatios(rig, ROUNDS)),
  await measureListRatio(rig, LIST_ROUNDS),
]

const isMet = (figures: readonly Figure[], recorded: Recorded): boolean =>
  figures.length > 0 && figures.every((figure) => holds(figure, recorded))

function holds({ what, value, aim }: Figure, recorded: Recorded): boolean {
  const known = recorded[what]
  // A new figure must be recorded first: bun run bench --record.
  if (known === undefined || aim === undefined) return false
  return "least" in aim ? value >= known * (1 - TOLERANCE) : value <= known * (1 + TOLERANCE)
}

const betterOf = (one: Figure, other: Figure): Figure =>
  (one.aim !== undefined && "least" in one.aim ? one.value > other.value : one.value < other.value) ? one : other
