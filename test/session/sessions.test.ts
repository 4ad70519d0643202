/** The limits of one client's share of common resources. */
import { Database } from "bun:sqlite"
import { expect, test } from "bun:test"
import { mkdtempSync, rmSync, statSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { TaskOwners } from "../../src/agent/task-owners.ts"
import type { RemoteReplicas } from "../../src/call/ports.ts"
import { buildCatalog, type Catalog, emptyCatalog, withOwn } from "../../src/catalog/catalog.ts"
import type { Listing } from "../../src/catalog/listing.ts"
import { identityOf } from "../../src/catalog/scope.ts"
import { Session } from "../../src/session/session.ts"
import { Sessions } from "../../src/session/sessions.ts"
import { keepKey, openSessionStore, type SessionStore, type StoredSession } from "../../src/store/session-store.ts"
import { manualClock, settle } from "../clock.ts"
import { AGGREGATE, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

const scope = AGGREGATE
const gateway = fakeGateway()
let count = 0
const sessionOf = (principal: string) => new Session(`s${++count}`, principal, scope, {})

test("a client that opens many sessions evicts its own", async () => {
  const clock = manualClock()
  const ended: string[] = []
  const sessions = new Sessions(
    clock,
    { count: 4, ttl: 1e9 },
    ({ principal }) => void ended.push(principal),
    () => undefined,
  )
  const open = async (principal: string) => {
    const session = sessionOf(principal)
    sessions.add(session, gateway)
    await clock.pass(1)
    return session
  }
  const quiet = await open("quiet")
  for (let opened = 0; opened < 10; opened++) await open("flood")
  expect(ended).toEqual(Array.from({ length: 7 }, () => "flood"))
  expect(sessions.get(quiet.id, "quiet", scope, gateway)).toBe(quiet)
  // If all of its sessions are in use, an unused session of another client makes room.
  for (const session of sessions.all()) if (session.principal === "flood") session.outlet = () => true
  await open("other")
  expect(ended.at(-1)).toBe("quiet")
  sessions.close()
})

test("notifications held for a session without a stream are bounded in size and number, and the newest stay", () => {
  const session = sessionOf("p")
  const got: string[] = []
  const taken = () => {
    got.length = 0
    session.open((text) => got.push(text) > 0)
    session.outlet = undefined
    return got
  }
  for (let number = 0; number < 200; number++) session.notify(`n${number}`)
  expect([taken().length, got[0], got.at(-1)]).toEqual([100, "n100", "n199"])
  for (let number = 0; number < 10; number++) session.notify(`${number}${"x".repeat(400_000)}`)
  expect(taken().map((text) => text[0])).toEqual(["8", "9"])
  session.notify("y".repeat(5_000_000))
  expect(taken()).toEqual([])
})

test("a restored session has its tasks, except those that now belong to another client", () => {
  const rows = new Map<string, string>()
  const memory: SessionStore = {
    load: (id) => JSON.parse(rows.get(id) ?? "null") ?? undefined,
    save: (id, session) => void rows.set(id, JSON.stringify(session)),
    remove: (id) => void rows.delete(id),
    close() {},
  }
  const start = () => {
    const taskOwners = new TaskOwners()
    const sessions = new Sessions(
      manualClock(),
      { count: 4, ttl: 1e9 },
      () => undefined,
      () => memory,
    )
    return { taskOwners, sessions, gateway: fakeGateway({ tasks: { owners: taskOwners } }) }
  }
  const first = start()
  const session = sessionOf("p")
  first.sessions.add(session, first.gateway)
  for (let number = 1; number <= 102; number++) session.addTask("a", `t${number}`, undefined)
  first.sessions.close()
  const second = start()
  const other = { kind: "task", backend: "a", era: "legacy", id: "t50", owner: "other" } as const
  second.taskOwners.make({ ...other, caller: undefined, shared: true })
  const again = second.sessions.get(session.id, "p", scope, second.gateway)
  const owner = (task: string) => second.taskOwners.find("task", "a", "legacy", task)?.owner
  expect([owner("t2"), owner("t50"), owner("t102")]).toEqual([undefined, "other", again])
  expect(second.taskOwners.of(again ?? "", "task")).toHaveLength(99)
  second.sessions.close()
})

test("a session for which there is no room leaves nothing behind when it is restored", () => {
  const stored = { principal: "p", scope: identityOf(scope), params: {}, logLevel: undefined }
  const memory: SessionStore = {
    load: () => ({ ...stored, subscriptions: [["a", "x:1"]] }),
    save() {},
    remove() {},
    close() {},
  }
  const subscribed: string[] = []
  const noting = fakeGateway({ notifications: { subscribe: (_, uri) => void subscribed.push(uri) } })
  const sessions = new Sessions(
    manualClock(),
    { count: 1, ttl: 1e9 },
    () => undefined,
    () => memory,
  )
  const busy = sessionOf("p")
  busy.outlet = () => true
  sessions.add(busy, noting)
  expect(() => sessions.get("earlier", "p", scope, noting)).toThrow("1 sessions already")
  expect(subscribed).toEqual([])
  busy.outlet = undefined
  expect(sessions.get("earlier", "p", scope, noting)?.id).toBe("earlier")
  expect(subscribed).toEqual(["x:1"])
  sessions.close()
})

test("a session whose stream opens on another replica while the session is loaded here holds no messages back [cluster:stream]", async () => {
  const stored: StoredSession = {
    principal: "p",
    scope: identityOf(scope),
    params: {},
    logLevel: undefined,
    subscriptions: [],
    tasks: [],
  }
  /** The shared state of the session, and the part of it that was read last. */
  let shared = stored
  let read: StoredSession | undefined
  const memory: SessionStore = {
    load: () => read,
    save() {},
    remove() {},
    close() {},
    shared: {
      async preload() {
        read = shared
        return true
      },
      reread: async (_id, _fields, take) => void take(shared),
      lost() {},
      stored: async () => undefined,
      adopt: async () => false,
      end: async () => undefined,
    },
  }
  const passed: string[] = []
  const replicas: RemoteReplicas = {
    replica: "here",
    lives: () => true,
    isStreamElsewhere: ({ streamAt }) => streamAt === "there",
    begin() {},
    end() {},
    pass: ({ streamAt }, text) => streamAt === "there" && passed.push(text) > 0,
    cancel: async () => undefined,
    reportUndelivered() {},
    opened() {},
    streamDrained() {},
    ended: async () => undefined,
  }
  const sessions = new Sessions(
    manualClock(),
    { count: 4, ttl: 1e9 },
    () => undefined,
    () => memory,
  )
  await sessions.preload("s")
  // The message about it arrives before the session exists here.
  shared = { ...stored, stream: "there" }
  const session = sessions.get("s", "p", scope, { ...gateway, replicas })
  session?.notify("news")
  await settle()
  expect([passed, session?.streamAt]).toEqual([["news"], "there"])
  sessions.close()
})

test("of what another replica changed, servers and the session learn only what is new [cluster:subscriptions:many]", async () => {
  let stored: StoredSession | undefined
  const memory: SessionStore = {
    load: () => undefined,
    save: (_, session) => {
      stored = session
    },
    remove() {},
    close() {},
    shared: {
      preload: async () => true,
      reread: async (_id, _fields, take) => void take(stored),
      lost() {},
      stored: async () => undefined,
      adopt: async () => false,
      end: async () => undefined,
    },
  }
  const heard: string[] = []
  const noting = fakeGateway({
    notifications: {
      subscribe: (_, uri) => void heard.push(uri),
      unsubscribe: (_, uri) => void heard.push(`not ${uri}`),
      setLogLevel: (_, level) => void heard.push(String(level)),
    },
  })
  const sessions = new Sessions(
    manualClock(),
    { count: 4, ttl: 1e9 },
    () => undefined,
    () => memory,
  )
  const session = sessionOf("p")
  sessions.add(session, noting)
  if (stored === undefined) throw new Error("it is stored")
  heard.length = 0
  for (const subscriptions of [["x:1"], ["x:1", "x:2"], ["x:2"]].map((uris) =>
    uris.map((uri) => ["a", uri] as const),
  )) {
    stored = { ...stored, logLevel: "info", subscriptions }
    await sessions.refresh(session, noting)
  }
  expect(heard).toEqual(["info", "x:1", "x:2", "not x:1"])
  expect([...session.subscriptions.values()]).toEqual([["a", "x:2"]])
  sessions.close()
})

test("a replica discards its data about a shared session once the session is evicted, ended or expired there", async () => {
  const forgotten: string[] = []
  const memory: SessionStore = {
    load: () => undefined,
    save() {},
    remove: (id) => void forgotten.push(id),
    close() {},
    shared: {
      preload: async () => false,
      reread: async (_id, _fields, take) => void take(undefined),
      lost() {},
      stored: async () => undefined,
      adopt: async () => false,
      end: async () => undefined,
    },
  }
  const clock = manualClock()
  const sessions = new Sessions(
    clock,
    { count: 2, ttl: 60_000 },
    () => undefined,
    () => memory,
  )
  const [evicted, ended, expired] = [sessionOf("p"), sessionOf("p"), sessionOf("p")]
  for (const session of [evicted, ended, expired]) {
    sessions.add(session, gateway)
    await clock.pass(1)
  }
  await sessions.refresh(ended, gateway)
  await clock.pass(120_000)
  expect(forgotten).toEqual([evicted.id, ended.id, expired.id])
  sessions.close()
})

test("the subscriptions of a session are bounded", () => {
  const session = sessionOf("p")
  for (let number = 0; number < 1000; number++) session.addSubscription("a", `x:${number}`)
  expect(() => session.addSubscription("a", "x:1000")).toThrow("1000")
  session.addSubscription("a", "x:1")
  expect(() => sessionOf("p").addSubscription("a", `x:${"y".repeat(5000)}`)).toThrow("if their URIs are long")
  expect(session.subscriptions.size).toBe(1000)
})

test("the key of task marks is created once, beside the sessions, and never through a symbolic link", () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-key-"))
  const file = join(folder, "sessions.sqlite")
  const key = keepKey(file)
  const memory = openSessionStore(file, 0)
  expect([key.length, keepKey(file), statSync(file).mode & 0o777]).toEqual([32, key, 0o600])
  memory.close()
  symlinkSync(join(folder, "elsewhere"), join(folder, "link"))
  expect(() => keepKey(join(folder, "link"))).toThrow("not a link")
  rmSync(folder, { recursive: true })
})

test("while sessions cannot be stored, they go on, and all that happened is stored afterwards [disk:full]", async () => {
  const folder = mkdtempSync(join(tmpdir(), "svc-full-"))
  const file = join(folder, "sessions.sqlite")
  const clock = manualClock()
  const problems: (string | undefined)[] = []
  const limits = { count: 10, ttl: 600_000 }
  const ended: string[] = []
  const open = () => {
    const store = openSessionStore(file, 0, (problem) => void problems.push(problem))
    return new Sessions(
      clock,
      limits,
      ({ id }) => void ended.push(id),
      () => store,
    )
  }
  const sessions = open()
  const [kept, removed, old] = [sessionOf("p"), sessionOf("p"), sessionOf("p")]
  for (const session of [kept, removed, old]) sessions.add(session, gateway)
  // Stands for a full disk.
  const other = new Database(file)
  for (const change of ["INSERT", "UPDATE", "DELETE"])
    other.run(
      `CREATE TRIGGER full_${change} BEFORE ${change} ON sessions BEGIN SELECT RAISE(FAIL, 'disk is full'); END`,
    )
  const late = sessionOf("p")
  sessions.add(late, gateway)
  kept.logLevel = "error"
  sessions.save(kept)
  sessions.remove(removed.id, "was ended")
  expect(sessions.get(removed.id, "p", scope, gateway)).toBeUndefined()
  expect(problems).toEqual([expect.stringContaining("disk is full")])
  await clock.pass(300_000)
  for (const session of [kept, late]) session.lastSeen = clock.now()
  await clock.pass(400_000)
  expect(ended).toEqual([removed.id, old.id])
  for (const change of ["INSERT", "UPDATE", "DELETE"]) other.run(`DROP TRIGGER full_${change}`)
  sessions.save(late)
  expect(problems.slice(1)).toEqual([undefined])
  other.close()
  const again = open()
  const found = [kept, removed, old, late].map(({ id }) => again.get(id, "p", scope, gateway)?.logLevel ?? null)
  expect(found.slice(0, 3)).toEqual(["error", null, null])
  expect(again.get(late.id, "p", scope, gateway)?.id).toBe(late.id)
  for (const one of [sessions, again]) one.close()
  rmSync(folder, { recursive: true })
})

test("a session is notified once of each list that a restart of its own process has changed", () => {
  const spec = fakeSpec()
  const entry = { name: "a", uri: "a:b", uriTemplate: "a:{b}" }
  /** The lists of a process that has just started. */
  const listingOf = (resources: readonly (typeof entry)[]) => ({
    ...fakePeer("legacy"),
    ...{ tools: [entry], prompts: [entry], resources, resourceTemplates: [...resources] },
  })
  const shared = buildCatalog([{ spec, listing: listingOf([]) }], emptyCatalog())
  const own = (listing: Listing, before: Catalog) => withOwn(shared, new Map([["s", { spec, listing }]]), before)
  const first = listingOf([])
  let catalog = own(first, shared)
  const changing = fakeGateway({ directory: { catalogOf: () => catalog } })
  const session = sessionOf("p")
  const seen: unknown[] = []
  session.open((text) => seen.push(JSON.parse(text).method) > 0)
  session.begin(changing, () => undefined)
  const change = (listing: Listing) => {
    catalog = own(listing, catalog)
    session.catalogChanged(changing)
    return seen.splice(0)
  }
  const second = listingOf([entry])
  expect(change(second)).toEqual(["notifications/resources/list_changed"])
  // A process may have a reason to send list_changed that its list does not show.
  expect(change({ ...second, prompts: [entry] })).toEqual(["notifications/prompts/list_changed"])
})
