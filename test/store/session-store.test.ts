/** What a store of sessions must do, in a file and in the state that replicas share. */
import { describe, expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openSessionStore, type SessionStore, type StoredSession } from "../../src/store/session-store.ts"
import { createSharedSessions } from "../../src/store/shared-sessions.ts"
import { manualClock, settle } from "../clock.ts"
import { localNetwork } from "../shared-state.ts"

const session: StoredSession = {
  principal: "token a",
  scope: "/mcp",
  params: { protocolVersion: "2025-11-25", clientInfo: { name: "ü", version: "1" } },
  logLevel: "warning",
  subscriptions: [],
  tasks: [],
}

type Stores = Disposable & {
  /** Opens the store again, as a restart or another replica does. */
  open(): SessionStore
}

const kinds: [string, () => Stores][] = [
  [
    "in a file",
    () => {
      const folder = mkdtempSync(join(tmpdir(), "svc-sessions-"))
      const opened: SessionStore[] = []
      return {
        open() {
          const store = openSessionStore(join(folder, "s.sqlite"), 0)
          opened.push(store)
          return store
        },
        [Symbol.dispose]() {
          for (const store of opened) store.close()
          rmSync(folder, { recursive: true })
        },
      }
    },
  ],
  [
    "in shared state",
    () => {
      const network = localNetwork(manualClock())
      return {
        open: () => createSharedSessions({ state: network.open(), ttl: 1000, onchange() {}, onended() {} }),
        [Symbol.dispose]() {},
      }
    },
  ],
]

/** Reads a session as a request does. */
const read = async (store: SessionStore, id: string) => {
  await settle()
  await store.shared?.bring(id)
  return store.load(id)
}

describe.each(kinds)("a store of sessions %s", (_, create) => {
  test("has what was saved last, and nothing after it was removed", async () => {
    using stores = create()
    const [one, other] = [stores.open(), stores.open()]
    expect(await read(one, "a")).toBeUndefined()
    one.save("a", session, 1)
    expect(await read(other, "a")).toMatchObject(session)
    const changed = { ...session, logLevel: "info", subscriptions: [["files", "file:///ü"]] as const }
    one.save("a", changed, 2)
    one.save("b", session, 2)
    expect(await read(other, "a")).toMatchObject(changed)
    one.save("a", { ...session, logLevel: undefined, tasks: [["files", "t1"]] }, 3)
    const last = await read(other, "a")
    expect([last?.logLevel, last?.subscriptions, last?.tasks]).toEqual([undefined, [], [["files", "t1"]]])
    await one.shared?.end("a")
    one.remove("a")
    expect(await read(other, "a")).toBeUndefined()
    expect(await read(other, "b")).toMatchObject(session)
  })
})

describe("sessions in shared state", () => {
  const pair = () => {
    const clock = manualClock()
    const network = localNetwork(clock)
    const heard: string[] = []
    const open = (name: string) =>
      createSharedSessions({
        state: network.open(),
        ttl: 1000,
        onchange: (id) => heard.push(`${name} changed ${id}`),
        onended: (id) => heard.push(`${name} ended ${id}`),
      })
    return { clock, network, heard, one: open("one"), other: open("other") }
  }

  test("replicas that change different parts of a session do not undo each other's changes", async () => {
    const { one, other, heard } = pair()
    one.save("a", session, 1)
    await read(other, "a")
    one.save("a", { ...session, subscriptions: [["s", "x"]] }, 2)
    other.save("a", { ...session, logLevel: "debug" }, 2)
    expect(await read(one, "a")).toMatchObject({ logLevel: "debug", subscriptions: [["s", "x"]] })
    expect(heard).toEqual(["one changed a", "other changed a"])
  })

  test("a session that was ended elsewhere does not come back by a late change", async () => {
    const { one, other, heard } = pair()
    one.save("a", session, 1)
    await read(other, "a")
    await one.shared?.end("a")
    other.save("a", { ...session, logLevel: "debug" }, 2)
    expect(await read(one, "a")).toBeUndefined()
    expect(heard).toEqual(["other ended a"])
  })

  test("a session that nobody uses expires; each use of any replica prolongs it", async () => {
    const { one, other, clock } = pair()
    one.save("a", session, 1)
    await read(other, "a")
    await clock.pass(900)
    other.save("a", session, 900)
    await clock.pass(900)
    expect(await read(one, "a")).toMatchObject(session)
    await clock.pass(1001)
    expect(await read(one, "a")).toBeUndefined()
  })

  test("a change that could not be written is written with the next one", async () => {
    const { one, other, network } = pair()
    one.save("a", session, 1)
    await settle()
    network.connected = false
    const failed = one.save("a", { ...session, logLevel: "info" }, 2)
    expect(failed).toBeUndefined()
    expect(await one.shared?.stored("a").catch((error: Error) => error.message)).toBe("away")
    network.connected = true
    one.save("a", { ...session, logLevel: "info" }, 3)
    expect(await read(other, "a")).toMatchObject({ logLevel: "info" })
  })
})
