/** What replicas that share eras do beyond the contract (contract.test.ts). */
import { describe, expect, test } from "bun:test"
import type { Launch } from "../../src/config/server-spec.ts"
import { createSharedEras } from "../../src/store/shared-eras.ts"
import { manualClock } from "../clock.ts"
import { memoryNetwork } from "../memory-network.ts"

const launch = (command: string) => ({ transport: "stdio", command, args: ["--token", "sekret"] }) as unknown as Launch

describe("eras of replicas", () => {
  test("what one learns or forgets the others know, also after the state was away; old ones do not pile up [cluster:eras]", async () => {
    await using network = await memoryNetwork()
    const clock = manualClock()
    const open = async () => {
      const state = await network.open()
      const eras = createSharedEras({ state, clock, tell: () => void state.publish("eras").catch(() => undefined) })
      state.onmessage((text) => void (text === "eras" && eras.sync()))
      return eras
    }
    const written = async () => {
      await clock.pass(1000)
      await network.settle()
    }
    const [one, other] = [await open(), await open()]
    one.set(launch("a"), "legacy")
    expect(one.get(launch("a"))).toBe("legacy")
    await written()
    expect(other.get(launch("a"))).toBe("legacy")
    other.forget(launch("a"))
    await written()
    expect(one.get(launch("a"))).toBeUndefined()
    await network.cut()
    one.set(launch("a"), "modern")
    await clock.pass(1000)
    expect(one.get(launch("a"))).toBe("modern")
    await network.mend()
    await written()
    expect(other.get(launch("a"))).toBe("modern")
    const state = await network.open()
    expect(JSON.stringify(await state.read("eras"))).not.toContain("sekret")
    await clock.pass(24 * 3_600_000)
    other.set(launch("b"), "legacy")
    await written()
    expect(Object.keys((await state.read("eras")) ?? {})).toHaveLength(1)
  })
})
