import { describe, expect, test } from "bun:test"
import { Subscriptions } from "../../src/agent/subscriptions.ts"

const [ann, bob] = [{ name: "ann" }, { name: "bob" }]

/** Subscriptions, with a record of the calls to their observer. */
function setUp() {
  const told: unknown[] = []
  const subscriptions = new Subscriptions({
    onsubscriptions: (id, session, isShared) => void told.push([id, session, isShared]),
    onlevel: (session) => void told.push(session),
    onsharedlevel: () => void told.push("shared"),
  })
  return { subscriptions, told }
}

describe("the log level that svc requests from shared servers", () => {
  test("is not set as long as no session has set one", () => {
    const { subscriptions, told } = setUp()
    subscriptions.setLevel(ann, undefined)
    expect([subscriptions.sharedLevel, told]).toEqual([undefined, [ann]])
  })

  test("is the least severe of all sessions, and the lowest of all while a session has set none, so that no client changes another client's level", () => {
    const { subscriptions, told } = setUp()
    const after = (session: object, level: string | undefined) => {
      subscriptions.setLevel(session, level)
      return subscriptions.sharedLevel
    }
    expect(after(ann, undefined)).toBeUndefined()
    expect(after(bob, "error")).toBe("debug")
    expect(after(ann, "warning")).toBe("warning")
    expect(after(ann, "emergency")).toBe("error")
    expect(told.filter((one) => one === "shared")).toHaveLength(3)
  })

  test("changes when a session ends, and at the next change if a level is only dropped", () => {
    const { subscriptions, told } = setUp()
    subscriptions.setLevel(ann, "debug")
    subscriptions.setLevel(bob, "error")
    subscriptions.dropLevel(ann)
    subscriptions.dropLevel(ann)
    expect([subscriptions.sharedLevel, subscriptions.levelOf(ann)]).toEqual(["debug", undefined])
    subscriptions.setLevel(bob, "error")
    expect(subscriptions.sharedLevel).toBe("error")
    told.length = 0
    subscriptions.setLevel(ann, "info")
    subscriptions.forget(ann)
    expect([subscriptions.sharedLevel, told]).toEqual(["error", [ann, "shared", "shared"]])
    subscriptions.forget(bob)
    expect(subscriptions.sharedLevel).toBe("error")
  })
})

test("a subscriber to a resource is notified of its sub-resources, and of no others", () => {
  const { subscriptions } = setUp()
  subscriptions.subscribe("s", "file:///a", ann, "legacy")
  const isTold = (uri: string, id = "s", session = ann) => subscriptions.subscribersOf(id, uri).has(session)
  for (const uri of ["file:///a", "file:///a/b", "file:///a#b", "file:///a?b"]) expect(isTold(uri)).toBe(true)
  for (const uri of ["file:///ab", "file:///", "", "FILE:///a"]) expect(isTold(uri)).toBe(false)
  expect([isTold("file:///a", "t"), isTold("file:///a", "s", bob)]).toEqual([false, false])
  expect([subscriptions.uris("s"), subscriptions.uris("s", ann), subscriptions.uris("s", bob)]).toEqual([
    ["file:///a"],
    ["file:///a"],
    [],
  ])
})

test("watchers hear of each change once it is made", () => {
  const { subscriptions } = setUp()
  const heard: unknown[] = []
  const isBob = (session: object) => session === bob
  subscriptions.watch((id, uri, session) => void heard.push([uri, session, subscriptions.isSubscribed(id, uri, isBob)]))
  subscriptions.subscribe("s", "a:b", ann, "legacy")
  subscriptions.subscribe("s", "a:b", bob, "modern")
  subscriptions.unsubscribe("s", "a:b", ann)
  subscriptions.forget(bob)
  expect(heard).toEqual([
    ["a:b", ann, false],
    ["a:b", bob, true],
    ["a:b", ann, true],
    ["a:b", bob, false],
  ])
})

test("a shared server learns of the first and the last subscriber, a session's own server of each", () => {
  const { subscriptions, told } = setUp()
  subscriptions.subscribe("s", "a:b", ann, "legacy")
  subscriptions.subscribe("s", "a:b", bob, "legacy")
  subscriptions.unsubscribe("s", "a:b", ann)
  subscriptions.unsubscribe("s", "a:b", ann)
  subscriptions.forget(bob)
  expect(told).toEqual([
    ["s", ann, true],
    ["s", bob, false],
    ["s", ann, false],
    ["s", ann, false],
    ["s", bob, true],
  ])
  expect(subscriptions.uris("s")).toEqual([])
})
