/** What replicas that serve the same sessions do beyond the contract of a store (contract.test.ts). */
import { describe, expect, test } from "bun:test"
import { createSharedSessions } from "../../../src/features/cluster/shared-sessions.ts"
import type { SharedState } from "../../../src/features/cluster/shared-state.ts"
import { UnavailableError } from "../../../src/lib/errors.ts"
import type { SessionStore, StoredSession } from "../../../src/store/session-store.ts"
import { fakeStoredSession } from "../../fakes.ts"
import { memoryNetwork } from "../../memory-network.ts"

const session = fakeStoredSession

describe("sessions of two replicas", () => {
  const pair = async () => {
    const network = await memoryNetwork()
    const heard: string[] = []
    const losses = new Map<string, () => void>()
    const open = async (name: string) =>
      createSharedSessions({
        state: await network.open(),
        ttl: 60_000,
        most: 3,
        onchange: async (id) => void heard.push(`${name} changed ${id}`),
        checkLoss: async () => losses.get(name)?.(),
        onended: (id) => heard.push(`${name} ended ${id}`),
      })
    /** Reads a session as a request does. */
    const read = async (store: SessionStore, id: string) => {
      await network.settle()
      await store.shared?.preload(id)
      return store.load(id)
    }
    const close = () => network[Symbol.asyncDispose]()
    return {
      network,
      heard,
      losses,
      read,
      one: await open("one"),
      other: await open("other"),
      [Symbol.asyncDispose]: close,
    }
  }

  test("replicas that change different parts of a session do not undo each other's changes", async () => {
    await using both = await pair()
    const { one, other, heard, read } = both
    one.save("a", session, 1)
    await read(other, "a")
    one.save("a", { ...session, subscriptions: [["s", "x"]] }, 2)
    other.save("a", { ...session, logLevel: "debug" }, 2)
    expect(await read(one, "a")).toMatchObject({ logLevel: "debug", subscriptions: [["s", "x"]] })
    // Redis takes the changes in either order.
    expect(heard.toSorted()).toEqual(["one changed a", "other changed a"])
  })

  test("a session that was ended elsewhere does not come back by a late change", async () => {
    await using both = await pair()
    const { one, other, heard, read } = both
    one.save("a", session, 1)
    await read(other, "a")
    await one.shared?.end("a")
    other.save("a", { ...session, logLevel: "debug" }, 2)
    expect(await read(one, "a")).toBeUndefined()
    expect(heard).toEqual(["other ended a"])
  })

  test("a session that has ended is not loaded from what was read of it before [cluster:sessions]", async () => {
    await using both = await pair()
    const { one, other, network, read } = both
    for (const id of ["a", "b"]) one.save(id, session, 1)
    await network.settle()
    // Two requests preload each, and the first of them restores it.
    for (const id of ["a", "a", "b", "b"]) await other.shared?.preload(id)
    for (const id of ["a", "b"]) expect(other.load(id)).toMatchObject(session)
    for (const id of ["a", "b"]) await other.shared?.preload(id)
    await one.shared?.end("a")
    expect(await read(other, "a")).toBeUndefined()
    // It leaves this replica between the two steps of a request.
    other.remove("b")
    expect(other.load("b")).toBeUndefined()
  })

  test("of what another replica changed, only that is read, whatever else is read meanwhile [cluster:subscriptions:many]", async () => {
    await using both = await pair()
    const { network, one } = both
    const [state, told] = [await network.open(), new Map<number, readonly string[] | undefined>()]
    const asked: (readonly string[] | undefined)[] = []
    const noting: Pick<SharedState, "read" | "write" | "swap" | "remove"> = {
      read(key, fields) {
        asked.push(fields)
        return state.read(key, fields)
      },
      write: (...change) => state.write(...change),
      swap: (...field) => state.swap(...field),
      remove: (...record) => state.remove(...record),
    }
    const store = (onchange: (fields: readonly string[] | undefined) => void) =>
      createSharedSessions({
        state: noting,
        ttl: 60_000,
        most: 3,
        onchange: async (_, fields) => onchange(fields),
        checkLoss: async () => undefined,
        onended() {},
      })
    const [writer, reader] = [store((fields) => void told.set(told.size, fields)), store(() => undefined)]
    one.save("a", session, 1)
    await network.settle()
    for (const each of [writer, reader]) {
      await each.shared?.preload("a")
      each.load("a")
    }
    asked.length = 0
    const subscribed = (...uris: string[]) => ({ ...session, subscriptions: uris.map((uri) => ["s", uri] as const) })
    for (const uris of [["x"], ["x", "y"], ["y"]]) {
      writer.save("a", subscribed(...uris), 2)
      await writer.shared?.stored("a")
    }
    expect([...told.values()]).toEqual([['s["s","x"]'], ['s["s","y"]'], ['s["s","x"]']])
    const seen: unknown[] = []
    const reread = (fields: readonly string[] | undefined) =>
      reader.shared?.reread("a", fields, (found) => seen.push(found?.subscriptions) > 0)
    await Promise.all([...told.values()].map(reread))
    expect(seen.at(-1)).toEqual([["s", "y"]])
    expect(asked).toEqual([...told.values()])
    // Too many to be named.
    writer.save("a", subscribed(...Array.from({ length: 200 }, (_, number) => `z${number}`)), 3)
    await network.settle()
    expect(told.get(3)).toBeUndefined()
    await reread(undefined)
    expect(seen.at(-1)).toHaveLength(200)
    await one.shared?.end("a")
    await reread(['s["s","x"]'])
    expect(seen.at(-1)).toBeUndefined()
  })

  test("one replica alone takes over a session whose home is gone, and none that has ended", async () => {
    await using both = await pair()
    const { one, other, heard, read } = both
    one.save("a", { ...session, home: "gone" }, 1)
    await read(one, "a")
    await read(other, "a")
    const adopt = (id: string) =>
      Promise.all([one.shared?.adopt(id, "gone", "one"), other.shared?.adopt(id, "gone", "other")])
    // The two have connections of their own, so either may be the first.
    const [isOne, isOther] = await adopt("a")
    expect(isOne).not.toBe(isOther)
    const home = isOne ? "one" : "other"
    expect(heard).toEqual([`${home} changed a`])
    // A change of a replica that has not heard of it leaves the new home.
    other.save("a", { ...session, home: "gone", logLevel: "debug" }, 2)
    expect(await read(one, "a")).toMatchObject({ home, logLevel: "debug" })
    expect(await adopt("b")).toEqual([false, false])
    expect(await read(one, "b")).toBeUndefined()
  })

  test("a session that nobody uses expires; each use of any replica sets its time anew", async () => {
    await using both = await pair()
    const { network, one, read } = both
    one.save("a", session, 1)
    const brief = createSharedSessions({
      state: await network.open(),
      ttl: 1,
      most: 3,
      async onchange() {},
      checkLoss: async () => undefined,
      onended() {},
    })
    expect(await read(brief, "a")).toMatchObject(session)
    expect(await read(one, "a")).toMatchObject(session)
    brief.save("a", session, 2)
    while ((await read(one, "a")) !== undefined);
  })

  test("a principal has a bounded number of sessions, those that were used last, and ends none of another's [cluster:sessions:bounded]", async () => {
    await using both = await pair()
    const { one, other, network, heard, read } = both
    one.save("theirs", { ...session, principal: "token b" }, 1)
    for (const id of ["a", "b", "c"]) {
      one.save(id, session, 1)
      await one.shared?.stored(id)
    }
    await read(other, "a")
    other.save("a", session, 2)
    await network.settle()
    one.save("d", session, 3)
    const kept = async () => {
      const found = await Promise.all(["theirs", "a", "b", "c", "d", "e"].map((id) => read(other, id)))
      return found.map((one) => one !== undefined)
    }
    expect(await kept()).toEqual([true, true, false, true, true, false])
    one.save("b", session, 4)
    await network.settle()
    expect(heard).toEqual(["one ended b"])
    // One that was ended makes room.
    await one.shared?.end("c")
    one.save("e", session, 5)
    expect(await kept()).toEqual([true, true, false, false, true, true])
  })

  test("a session that a replica lets go of is forgotten there once its last change is written", async () => {
    await using both = await pair()
    const { one, other, network, read } = both
    one.save("a", session, 1)
    await network.settle()
    one.save("a", { ...session, logLevel: "debug" }, 2)
    one.remove("a")
    expect(await read(other, "a")).toMatchObject({ logLevel: "debug" })
    // It has nothing that a change could be compared with.
    one.save("a", { ...session, logLevel: "error" }, 3)
    expect(await read(other, "a")).toMatchObject({ logLevel: "debug" })
  })

  test("a session that the state loses while it is written is stored as new, not ended", async () => {
    await using both = await pair()
    const { network, other, heard, read } = both
    const state = await network.open()
    const losing: Pick<SharedState, "read" | "write" | "swap" | "remove"> = {
      read: (...what) => state.read(...what),
      async write(...change) {
        const done = await state.write(...change)
        losing.write = (...next) => state.write(...next)
        await network.clear()
        store.shared?.lost()
        store.save("a", { ...session, logLevel: "debug" }, 2)
        return done
      },
      swap: (...field) => state.swap(...field),
      remove: (...record) => state.remove(...record),
    }
    const store = createSharedSessions({
      state: losing,
      ttl: 60_000,
      most: 3,
      async onchange() {},
      checkLoss: async () => undefined,
      onended: (id) => heard.push(`ended ${id}`),
    })
    store.save("a", session, 1)
    await store.shared?.stored("a")
    expect(await read(other, "a")).toMatchObject({ logLevel: "debug" })
    expect(heard).toEqual([])
  })

  test("what two replicas change of a session that the state has lost is stored again, and ends it on neither [cluster:refusing]", async () => {
    await using both = await pair()
    const { one, other, network, heard, losses, read } = both
    one.save("a", { ...session, subscriptions: [["s", "v"]] }, 1)
    await read(other, "a")
    await network.clear()
    const change = (name: string, store: SessionStore, changed: StoredSession) => {
      // As all sessions are when their replica learns of the loss.
      losses.set(name, () => {
        losses.delete(name)
        store.shared?.lost()
        store.save("a", changed, 2)
      })
      store.save("a", changed, 2)
    }
    change("one", one, { ...session, subscriptions: [["s", "v"]], logLevel: "debug" })
    await network.settle()
    change("other", other, { ...session, subscriptions: [["s", "w"]] })
    await network.settle()
    expect(await read(one, "a")).toMatchObject({ logLevel: "debug", subscriptions: [["s", "w"]] })
    expect(heard).toEqual(["other changed a"])
  })

  test("a session that the state has lost is read once it is stored again [cluster:refusing]", async () => {
    await using both = await pair()
    const { one, network, losses } = both
    one.save("a", session, 1)
    await network.settle()
    await network.clear()
    losses.set("one", () => {
      losses.delete("one")
      one.shared?.lost()
      one.save("a", session, 2)
    })
    const seen: unknown[] = []
    await one.shared?.reread("a", ["level"], (found) => seen.push(found?.logLevel) > 0)
    expect(seen).toEqual(["warning"])
  })

  test("changes that wait for another one are written together", async () => {
    await using both = await pair()
    const { one, other, network, heard, read } = both
    one.save("a", session, 1)
    await network.settle()
    for (let number = 0; number < 10; number++)
      one.save(
        "a",
        { ...session, subscriptions: Array.from({ length: number }, (_, uri) => ["s", `${uri}`] as const) },
        2,
      )
    expect((await read(other, "a"))?.subscriptions).toHaveLength(9)
    expect(heard).toEqual(["one changed a"])
  })

  test("a change that could not be written is written with the next one", async () => {
    await using both = await pair()
    const { one, other, network, read } = both
    one.save("a", session, 1)
    await network.settle()
    await network.cut()
    one.save("a", { ...session, logLevel: "info" }, 2)
    expect(await one.shared?.stored("a").catch((error: unknown) => error)).toBeInstanceOf(UnavailableError)
    await network.mend()
    one.save("a", { ...session, logLevel: "info" }, 3)
    expect(await read(other, "a")).toMatchObject({ logLevel: "info" })
  })

  test("a change that could not be written is not taken back by what is stored [cluster:away]", async () => {
    await using both = await pair()
    const { one, other, network, read } = both
    one.save("a", session, 1)
    await network.settle()
    await network.cut()
    one.save("a", { ...session, subscriptions: [["s", "x"]] }, 2)
    await one.shared?.stored("a").catch(() => undefined)
    await network.mend()
    const seen: unknown[] = []
    await one.shared?.reread("a", undefined, (found) => seen.push(found?.subscriptions) > 0)
    expect(seen).toEqual([[["s", "x"]]])
    expect(await read(other, "a")).toMatchObject({ subscriptions: [["s", "x"]] })
  })
})
