/** The short form of the ledger. SVC_CHAOS_LEDGER_MS makes it longer, SVC_SEED changes it. */
import { expect, test } from "bun:test"
import { runLedger, tableOf } from "./ledger.ts"

const DURATION_MS = Number(process.env.SVC_CHAOS_LEDGER_MS ?? 35_000)
const SEED = Number(process.env.SVC_SEED ?? 20_260_728)

test(
  "the answers that clients get match what servers executed, whatever is killed, cut and edited [supervise:exit] [protocol:stopping]",
  async () => {
    const report = await runLedger({ ms: DURATION_MS, seed: SEED, sessions: 33, stdio: 8, http: 4 })
    process.stderr.write(`ledger: seed ${SEED}\n${tableOf(report)}`)
    expect(report.faults.length).toBe(0)
    expect(report.counts["calls ok"]).toBeGreaterThan(1000)
  },
  DURATION_MS + 180_000,
)
