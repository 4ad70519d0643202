import { describe, expect, test } from "bun:test"
import { ClusterKeys } from "../../../src/features/cluster/cluster-keys.ts"
import { createMarker } from "../../../src/lib/seal.ts"
import { memoryNetwork } from "../../memory-network.ts"

describe("keys of a cluster", () => {
  test("a state that is cleared while replicas agree on keys leaves none without a key [cluster:keys]", async () => {
    await using network = await memoryNetwork()
    const [one, other] = [await network.open(), await network.open()]
    let clears = 2
    const read: typeof one.read = async (key) => {
      if (clears-- > 0) await network.clear()
      return one.read(key)
    }
    const bound = { swap: one.swap.bind(one), onstate: one.onstate.bind(one) }
    const keys = new ClusterKeys({ connected: true, read, ...bound })
    await keys.ready
    expect(keys.mark("text")).not.toBe(createMarker(() => new Uint8Array())("text"))
    const same = new ClusterKeys(other)
    await same.ready
    expect(same.mark("text")).toBe(keys.mark("text"))
    expect(same.sealer.open(keys.sealer.seal("text"))).toBe("text")
    keys.close()
    same.close()
  })

  test("a loss is known when it is asked for, and told once for all that ask [cluster:keys]", async () => {
    await using network = await memoryNetwork()
    const keys = new ClusterKeys(await network.open())
    await keys.ready
    const told: boolean[] = []
    keys.onback((lost) => told.push(lost))
    await keys.checkLoss()
    expect(told).toEqual([])
    await network.clear()
    await Promise.all(Array.from({ length: 10 }, () => keys.checkLoss()))
    expect(told).toEqual([true])
    keys.close()
  })
})
