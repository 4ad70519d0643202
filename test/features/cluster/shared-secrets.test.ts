import { describe, expect, test } from "bun:test"
import { createSharedSecrets } from "../../../src/features/cluster/shared-secrets.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { manualClock } from "../../clock.ts"
import { memoryNetwork } from "../../memory-network.ts"

describe("secrets of replicas", () => {
  test("authorizations are shared, sealed with SVC_STATE_KEY, and of no use with another one [cluster:authorizations]", async () => {
    await using network = await memoryNetwork()
    const state = await network.open()
    const warned: string[] = []
    const open = (replica: string, stateKey?: string) =>
      createSharedSecrets({ state, replica, stateKey, clock: systemClock, onunsealed: () => void warned.push(replica) })
    const [one, other] = [open("r1", "pass phrase"), open("r2", "pass phrase")]
    expect(await one.read()).toEqual({})
    await one.put("files https://me:secret-in-url@example.com", { tokens: { access: "secret-token" } })
    await other.put("web https://example.org", { tokens: { access: "other-token" } })
    const both = {
      "files https://me:secret-in-url@example.com": { tokens: { access: "secret-token" } },
      "web https://example.org": { tokens: { access: "other-token" } },
    }
    expect([await one.read(), await other.read()]).toEqual([both, both])
    expect(JSON.stringify(await state.read("authorizations"))).not.toContain("secret-")
    expect(
      await open("r3", "wrong")
        .read()
        .catch((error: Error) => error.message),
    ).toContain("SVC_STATE_KEY")
    await one.put("files https://me:secret-in-url@example.com", undefined)
    expect(Object.keys(await other.read())).toEqual(["web https://example.org"])
    expect(warned).toEqual([])
    const plain = open("r4")
    await plain.put("a", 1)
    await plain.put("b", 2)
    expect(warned).toEqual(["r4"])
  })

  test("one replica at a time renews an authorization, however long that takes", async () => {
    const clock = manualClock()
    await using network = await memoryNetwork()
    const pass = async (ms: number) => {
      await clock.pass(ms)
      await network.settle()
    }
    const open = async (replica: string) =>
      createSharedSecrets({ state: await network.open(), replica, stateKey: undefined, clock, onunsealed() {} })
    const [one, other] = [await open("r1"), await open("r2")]
    const events: string[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const first = one.exclusive("x", async () => {
      events.push("one begins")
      begun.resolve()
      await promise
      events.push("one ends")
    })
    await begun.promise
    const second = other.exclusive("x", async () => void events.push("other"))
    const unrelated = other.exclusive("y", async () => void events.push("unrelated"))
    for (let passed = 0; passed < 20_000; passed += 500) await pass(500)
    await unrelated
    expect(events).toEqual(["one begins", "unrelated"])
    resolve()
    await first
    await pass(200)
    await second
    expect(events).toEqual(["one begins", "unrelated", "one ends", "other"])
  })
})
