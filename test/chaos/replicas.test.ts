/** The short form of the ledger of replicas. SVC_CHAOS_REPLICAS_MS makes it longer, SVC_SEED changes it. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS } from "../redis.ts"
import { runReplicas, tableOf } from "./replicas.ts"

const DURATION_MS = Number(process.env.SVC_CHAOS_REPLICAS_MS ?? 27_000) / 3
const SEED = Number(process.env.SVC_SEED ?? 192)

describe.skipIf(NO_REDIS !== undefined)("replicas in chaos", () => {
  test.each([
    ["keeps what it holds", { aof: true, home: false }],
    ["loses what it holds", { aof: false, home: false }],
    ["keeps what it holds and sessions have processes of their own", { aof: true, home: true }],
  ])(
    "if Redis %s, no call runs twice or gets another client's answer, and only calls in flight at a kill fail [cluster:chaos]",
    async (_, how) => {
      const report = await runReplicas({ ms: DURATION_MS, seed: SEED, clients: 16, ...how })
      process.stderr.write(`replicas: seed ${SEED}\n${tableOf(report)}`)
      expect(report.faults.length).toBe(0)
      expect(report.counts["2025 ask: ok"]).toBeGreaterThan(10)
    },
    DURATION_MS + 120_000,
  )
})
