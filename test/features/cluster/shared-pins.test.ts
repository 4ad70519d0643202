/** What replicas that share pins do beyond the contract (contract.test.ts). */
import { describe, expect, test } from "bun:test"
import { createSharedPins, type PinnedElsewhere } from "../../../src/features/cluster/shared-pins.ts"
import { createToolPins, type ToolPins } from "../../../src/store/tool-pins.ts"
import { manualClock } from "../../clock.ts"
import { memoryNetwork } from "../../memory-network.ts"

async function cluster() {
  const network = await memoryNetwork()
  return {
    network,
    /** Opens a replica; `own` are the pins of its file. */
    async open(own = createToolPins(undefined, manualClock())) {
      const state = await network.open()
      const heard: PinnedElsewhere[] = []
      const pins = createSharedPins({
        own,
        state,
        tell: () => void state.publish("pins").catch(() => undefined),
        onpinned: (pinned) => void heard.push(...pinned),
      })
      state.onmessage((text) => void (text === "pins" && pins.sync()))
      await pins.sync()
      return { ...pins, own, heard }
    },
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  }
}

const list = (pins: ToolPins, tools: Record<string, string>) =>
  pins.check("a", new Map(Object.entries(tools)), () => undefined)

describe("pins of replicas", () => {
  test("the first replica that sees a tool pins it for those that run, and of two at once the first to write [cluster:pins]", async () => {
    await using all = await cluster()
    const [one, other] = [await all.open(), await all.open()]
    expect(list(one, { x: "1" })).toEqual([])
    await all.network.settle()
    expect(list(other, { x: "2" })).toEqual(["x"])
    expect(other.own.pinned("a").get("x")).toBe("1")
    expect([list(one, { y: "1" }), list(other, { y: "2" })]).toEqual([[], []])
    await all.network.settle()
    const changed = [list(one, { y: "1" }), list(other, { y: "2" })]
    expect(changed.map((names) => names.join()).sort()).toEqual(["", "y"])
    const loser = changed[0]?.length === 0 ? other : one
    expect(loser.heard).toContainEqual({ server: "a", tool: "y", hash: loser === other ? "1" : "2" })
  })

  test("an approval on one holds on all, and what a replica's own file pins stays good there [cluster:approvals]", async () => {
    await using all = await cluster()
    const filed = createToolPins(undefined, manualClock())
    list(filed, { x: "1" })
    const [old, one, other] = [await all.open(filed), await all.open(), await all.open()]
    list(old, { x: "1" })
    await all.network.settle()
    expect([list(one, { x: "2" }), list(other, { x: "2" })]).toEqual([["x"], ["x"]])
    expect(one.approve("a", "x")).toEqual(["x"])
    await all.network.settle()
    expect(list(other, { x: "2" })).toEqual([])
    // This replica still runs the version from before.
    expect(list(old, { x: "1" })).toEqual([])
    expect(list(old, { x: "3" })).toEqual(["x"])
  })

  test("pins are written when the state is back, and again if it has lost them", async () => {
    await using all = await cluster()
    const one = await all.open()
    await all.network.cut()
    expect(list(one, { x: "1" })).toEqual([])
    await all.network.mend()
    await one.sync()
    const state = await all.network.open()
    const stored = async () => Object.values((await state.read("pins")) ?? {})
    expect(await stored()).toEqual(["1"])
    await state.remove("pins")
    await one.sync()
    expect(await stored()).toEqual(["1"])
  })
})
