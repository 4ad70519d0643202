/** The record that replicas exchange with the shared state. What each kind of document adds: shared-*.test.ts. */
import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { createStateSeal, type DocumentRules, SharedDocument } from "../../../src/features/cluster/shared-document.ts"
import { mergeTokens } from "../../../src/features/cluster/shared-tokens.ts"
import type { ClientToken } from "../../../src/store/client-tokens.ts"
import { memoryNetwork } from "../../memory-network.ts"

/** Numbers of which the larger one counts; those from 100 are final. */
const RULES: Omit<DocumentRules<number>, "tell"> = {
  key: "numbers",
  parse: (_, text) => (/^\d+$/.test(text) ? Number(text) : undefined),
  print: String,
  merge: (_, found, mine = 0) => Math.max(found, mine),
  isFinal: (_, value) => value >= 100,
}

async function cluster(rules: Partial<DocumentRules<number>> = {}) {
  const network = memoryNetwork()
  const state = await network.open()
  const open = async () => {
    const own = await network.open()
    const heard: string[] = []
    const document = new SharedDocument(own, {
      ...RULES,
      onchange: (changes) => void heard.push(...changes.map(({ field, value }) => `${field}=${value}`)),
      tell: () => void own.publish("numbers").catch(() => undefined),
      ...rules,
    })
    own.onmessage((text) => void (text === "numbers" && document.sync()))
    return { document, heard, state: own }
  }
  return {
    network,
    state,
    stored: async () => ({ ...(await state.read("numbers")) }),
    one: await open(),
    other: await open(),
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  }
}

describe("a document that replicas share", () => {
  test("has a change here at once and elsewhere after an exchange, and says what has changed", async () => {
    await using all = await cluster()
    const { one, other, network } = all
    one.document.set("a", 1)
    expect([one.document.known.get("a"), one.document.hasUnwritten, await all.stored()]).toEqual([1, true, {}])
    await one.document.sync()
    await network.settle()
    expect([one.document.hasUnwritten, await all.stored()]).toEqual([false, { a: "1" }])
    expect([other.document.known.get("a"), one.heard, other.heard]).toEqual([1, [], ["a=1"]])
  })

  test("writes what could not be written when the state is back, without being asked", async () => {
    await using all = await cluster()
    const { one, other, network } = all
    await network.cut()
    one.document.set("a", 1)
    await one.document.sync()
    expect(one.document.hasUnwritten).toBe(true)
    let isRead = false
    void other.document.refresh().then(() => {
      isRead = true
    })
    await network.settle()
    expect(isRead).toBe(false)
    await network.mend()
    await network.settle()
    expect([other.document.known.get("a"), one.document.hasUnwritten, isRead]).toEqual([1, false, true])
  })

  test("is written again if the state has lost it", async () => {
    await using all = await cluster()
    all.one.document.set("a", 1)
    await all.one.document.sync()
    await all.network.clear()
    await all.one.document.sync()
    expect([await all.stored(), all.one.document.hasUnwritten]).toEqual([{ a: "1" }, false])
  })

  test("writes only over what it was merged with, and merges what another replica wrote meanwhile", async () => {
    await using all = await cluster()
    const { one, other, network } = all
    for (const [{ document }, value] of [
      [one, 7],
      [other, 9],
    ] as const) {
      document.set("a", value)
      document.set("b", 16 - value)
    }
    await Promise.all([one.document.sync(), other.document.sync()])
    await network.settle()
    expect(await all.stored()).toEqual({ a: "9", b: "9" })
    for (const { document } of [one, other])
      expect([Object.fromEntries(document.known), document.hasUnwritten]).toEqual([{ a: 9, b: 9 }, false])
  })

  test("writes a final value over any other, and once more what changes while it is written", async () => {
    let meanwhile = () => {}
    await using all = await cluster({
      print(value) {
        meanwhile()
        return String(value)
      },
    })
    const { one, network, state } = all
    meanwhile = () => {
      meanwhile = () => {}
      one.document.set("a", 101)
      void state.write("numbers", { a: "5" })
    }
    one.document.set("a", 100)
    await one.document.sync()
    expect([await all.stored(), one.document.hasUnwritten]).toEqual([{ a: "100" }, true])
    await one.document.sync()
    await network.settle()
    expect([await all.stored(), one.document.hasUnwritten]).toEqual([{ a: "101" }, false])
  })

  test("leaves fields that it cannot use, unless they have expired", async () => {
    let over: readonly string[] = []
    await using all = await cluster({ over: () => over })
    await all.state.write("numbers", { a: "1", b: "two" })
    await all.one.document.sync()
    expect([[...all.one.document.known], await all.stored()]).toEqual([[["a", 1]], { a: "1", b: "two" }])
    over = ["b"]
    await all.one.document.sync()
    expect(await all.stored()).toEqual({ a: "1" })
  })

  test("holds the same everywhere, whatever replicas change, miss and lose", async () => {
    const action = fc.record({
      by: fc.constantFrom("one", "other"),
      does: fc.constantFrom("set", "set", "sync", "cut", "clear", "settle"),
      field: fc.constantFrom("a", "b"),
      value: fc.nat(120),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 12 }), async (actions) => {
        await using all = await cluster()
        const largest: Record<string, number> = {}
        for (const { by, does, field, value } of actions) {
          const { document } = by === "one" ? all.one : all.other
          if (does === "set") {
            document.set(field, Math.max(value, document.known.get(field) ?? 0))
            largest[field] = Math.max(value, largest[field] ?? 0)
          } else if (does === "sync") void document.sync()
          else if (does === "clear") await all.network.clear()
          else if (does === "settle") await all.network.settle()
          else {
            await all.network.cut()
            await all.network.mend()
          }
        }
        for (let turn = 0; turn < 2; turn++)
          for (const { document } of [all.one, all.other]) {
            await document.sync()
            await all.network.settle()
          }
        for (const { document } of [all.one, all.other]) {
          expect(Object.fromEntries(document.known)).toEqual(largest)
          expect(document.hasUnwritten).toBe(false)
        }
      }),
      { numRuns: 60 },
    )
  })
})

describe("a seal of the shared state", () => {
  test("opens what another replica with the same SVC_STATE_KEY has sealed, and warns once without one", async () => {
    const warned: string[] = []
    const [one, other, stranger, none] = ["key", "key", "other", undefined].map((key) =>
      createStateSeal(key, () => warned.push(String(key))),
    )
    const sealed = (await one?.seal("text")) ?? ""
    expect(sealed).not.toContain("text")
    expect(await Promise.all([other, stranger, none].map((seal) => seal?.open(sealed)))).toEqual([
      "text",
      undefined,
      undefined,
    ])
    expect([await none?.seal("text"), await none?.seal("text"), warned]).toEqual([undefined, undefined, ["undefined"]])
  })
})

describe("of two entries of a token", () => {
  const token = (changed: string | undefined, tags?: string[]): ClientToken =>
    ({
      id: "t",
      name: "a",
      hash: "h",
      created: at(0),
      ...(changed && { changed }),
      ...(tags && { tags }),
    }) as ClientToken
  const at = (ms: number) => new Date(ms).toISOString()
  const revoked = (revokedUntil: number) => ({ revokedUntil })

  test.each([
    ["the newer one counts", token(at(2)), token(at(1)), token(at(2))],
    ["the newer one counts, also if it is here", token(at(1)), token(at(2)), token(at(2))],
    ["the one in the state counts if none is here", token(at(1)), undefined, token(at(1))],
    ["a revocation counts, also if it is here", token(at(9)), revoked(5), revoked(5)],
    ["a revocation counts, also if it is in the state", revoked(5), token(at(9)), revoked(5)],
    ["the revocation in the state counts if both are", revoked(5), revoked(6), revoked(5)],
    [
      "the one here is newer if both have one time and differ",
      token(at(1), ["x"]),
      token(at(1), ["y"]),
      token(at(50), ["y"]),
    ],
  ])("%s [cluster:tokens]", (_, found, mine, counts) => {
    expect(mergeTokens(found, mine, 50)).toEqual(counts)
  })
})
