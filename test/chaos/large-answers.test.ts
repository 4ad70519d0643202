/** The short form of the comparison of large answers. SVC_CHAOS_RESULTS makes it longer, SVC_SEED changes it. */
import { expect, test } from "bun:test"
import { compareLargeAnswers } from "./large-answers.ts"

const RESULTS = Number(process.env.SVC_CHAOS_RESULTS ?? 400)
const SEED = Number(process.env.SVC_SEED ?? 20_261_123)

test(
  "large answers arrive byte by byte, whatever the server, the client and the pieces [relay:streamed]",
  async () => {
    const compared = await compareLargeAnswers({ results: RESULTS, seed: SEED, callers: 8, largest: 1_000_000 })
    process.stderr.write(`large answers: seed ${SEED}, ${compared.equal} equal, ${compared.bytes} bytes\n`)
    expect(compared.faults).toEqual([])
    expect(compared.equal).toBe(RESULTS)
    expect(compared.stderr).not.toMatch(/internal error|^\s+at /m)
  },
  120_000 + RESULTS * 100,
)
