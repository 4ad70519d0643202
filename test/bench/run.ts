/**
 * Measures the built binary: `bun run bench [--check] [--json] [group …]`. The groups are calls, stages,
 * peers, cluster, hop, lists, pace, remotes, cold and memory. Prints a table, or JSON. With --check, exits with 1 if a target is missed. `--guard` measures a few ratios for
 * half a minute, and exits with 1 if one of them is worse than recorded; `--record` records them. `--turns` measures how long
 * hostile inputs hold the event loop.
 *
 *  1. Everything that is compared is measured in the same run, in interleaved rounds. A ratio is taken within a round, and the
 *     median of the rounds counts. For calls and lists, each round starts new processes, because processes of the same build
 *     differ. Ratios can be compared between machines, absolute figures cannot.
 *  2. Everything runs on loopback. Processes are ended by their pid.
 */
import { existsSync } from "node:fs"
import { availableParallelism, cpus, loadavg, release, totalmem } from "node:os"
import { measureCalls, measurePeers } from "./calls.ts"
import { measureCluster } from "./cluster.ts"
import { measureCold } from "./cold.ts"
import { type Figure, isReached, type Measured, tableOf } from "./figure.ts"
import { measureHop } from "./hop.ts"
import { measureLists } from "./lists.ts"
import { measureMemory } from "./memory.ts"
import { measurePace } from "./pace.ts"
import { measureRemotes } from "./remotes.ts"
import { startRig } from "./rig.ts"
import { measureStages } from "./stages.ts"
import { SVC } from "./targets.ts"

const ROUNDS = 5

const args = process.argv.slice(2)
const flags = args.filter((arg) => arg.startsWith("--"))
const unknown = flags.filter((flag) => !["--check", "--json", "--guard", "--record", "--turns"].includes(flag))
if (unknown.length > 0) throw new Error(`unknown option ${unknown.join(" ")}`)
if (!existsSync(SVC)) throw new Error("there is no binary: run `bun run build` first")

if (flags.includes("--turns")) {
  const { measureTurns } = await import("./turns.ts")
  const { lines, holds } = await measureTurns(args.find((arg) => !arg.startsWith("--")))
  process.stdout.write(`${lines.join("\n")}\n`)
  process.exit(holds ? 0 : 1)
}
await using rig = startRig()
if (flags.includes("--guard") || flags.includes("--record")) {
  const { guard, record } = await import("./guard.ts")
  if (flags.includes("--record")) await record(rig)
  const { lines, holds } = await guard(rig)
  process.stdout.write(`${lines.join("\n")}\n`)
  if (!holds) process.stderr.write("svc is more than 15 % slower than recorded in test/bench/recorded.json\n")
  await rig[Symbol.asyncDispose]()
  process.exit(holds ? 0 : 1)
}
const groups: Readonly<Record<string, () => Promise<Measured>>> = {
  calls: () => measureCalls(rig, ROUNDS),
  stages: () => measureStages(rig, ROUNDS),
  peers: () => measurePeers(rig, ROUNDS),
  cluster: () => measureCluster(rig, ROUNDS),
  hop: () => measureHop(rig, ROUNDS),
  lists: () => measureLists(rig, ROUNDS),
  cold: () => measureCold(ROUNDS),
  pace: () => measurePace(rig, ROUNDS),
  remotes: () => measureRemotes(ROUNDS),
  memory: () => measureMemory(rig),
}
const wanted = args.filter((arg) => !arg.startsWith("--"))
for (const name of wanted) if (groups[name] === undefined) throw new Error(`there is no group ${name}`)

const started = performance.now()
const figures: Figure[] = []
const missing: string[] = []
for (const [name, measure] of Object.entries(groups)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const begun = performance.now()
  const measured = await measure()
  figures.push(...measured.figures)
  missing.push(...(measured.missing ?? []))
  process.stderr.write(`${name}: ${((performance.now() - begun) / 1000).toFixed(0)} s\n`)
}
const seconds = Math.round((performance.now() - started) / 1000)
const machine = {
  cpu: cpus()[0]?.model.trim(),
  cores: availableParallelism(),
  memoryGb: Math.round(totalmem() / 2 ** 30),
  linux: release().split("-")[0],
  bun: Bun.version,
  load: loadavg()[0],
}
const missed = figures.filter((figure) => !isReached(figure))
if (flags.includes("--json"))
  process.stdout.write(`${JSON.stringify({ machine, seconds, rounds: ROUNDS, figures, missing }, null, 2)}\n`)
else {
  process.stdout.write(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB, Linux ${machine.linux}, Bun ${machine.bun}; medians of ${ROUNDS} rounds; ${seconds} s\n\n${tableOf(figures)}\n`,
  )
  for (const line of missing) process.stdout.write(`\nleft out: ${line}\n`)
}
if (flags.includes("--check") && missed.length > 0) {
  process.stderr.write(`${missed.length} of ${figures.length} targets are missed\n`)
  process.exitCode = 1
}
