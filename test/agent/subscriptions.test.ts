import { describe, expect, test } from "bun:test"
import { Subscriptions } from "../../src/agent/subscriptions.ts"

const [ann, bob] = [{}, {}]

describe("the level that servers are asked for", () => {
  test("is none as long as nobody has set one", () => {
    const interests = new Subscriptions()
    interests.setLevel(ann, undefined)
    expect(interests.leastLevel).toBeUndefined()
  })

  test("is the least severe, and everything while somebody has set none: a client's level changes no other's", () => {
    const interests = new Subscriptions()
    interests.setLevel(ann, undefined)
    interests.setLevel(bob, "error")
    expect(interests.leastLevel).toBe("debug")
    interests.setLevel(ann, "warning")
    expect(interests.leastLevel).toBe("warning")
    interests.setLevel(ann, "emergency")
    expect(interests.leastLevel).toBe("error")
    interests.dropLevel(bob)
    interests.dropLevel(bob)
    expect(interests.leastLevel).toBe("emergency")
    interests.dropLevel(ann)
    expect(interests.leastLevel).toBeUndefined()
  })
})

test("who is subscribed to a resource hears of its parts, and of nothing beside it", () => {
  const interests = new Subscriptions()
  interests.subscribe("s", "file:///a", ann)
  const heard = (uri: string, id = "s", session = ann) => interests.subscribersOf(id, uri).has(session)
  for (const uri of ["file:///a", "file:///a/b", "file:///a#b", "file:///a?b"]) expect(heard(uri)).toBe(true)
  for (const uri of ["file:///ab", "file:///", "", "FILE:///a"]) expect(heard(uri)).toBe(false)
  expect([heard("file:///a", "t"), heard("file:///a", "s", bob)]).toEqual([false, false])
  expect([interests.uris("s"), interests.uris("s", ann), interests.uris("s", bob)]).toEqual([
    ["file:///a"],
    ["file:///a"],
    [],
  ])
})
