import { expect, test } from "bun:test"
import { progressInOrder } from "../../src/backend/progress-order.ts"
import { manualClock, settle } from "../clock.ts"

const PROGRESS = { number: undefined, method: "notifications/progress" }
const ANSWER = { number: undefined, method: undefined }

/** Returns a function that sends a message by its name, the names that are under way, and one that has a message accepted. */
function sending() {
  const clock = manualClock()
  const inOrder = progressInOrder(clock)
  const begun: string[] = []
  const accept = new Map<string, () => void>()
  const send = (name: string, about: { readonly number: number | undefined; readonly method: string | undefined }) =>
    inOrder(about, () => {
      begun.push(name)
      return new Promise((resolve) => accept.set(name, resolve))
    })
  const accepted = async (name: string) => {
    accept.get(name)?.()
    await settle()
  }
  return { clock, begun, send, accepted }
}

test("progress of a client goes in order, and its answer after it; other messages do not wait [remote:progress-order]", async () => {
  const { begun, send, accepted } = sending()
  send("1", PROGRESS)
  send("2", PROGRESS)
  send("answer", ANSWER)
  send("call", { number: 1, method: "tools/call" })
  send("cancel", { number: undefined, method: "notifications/cancelled" })
  expect(begun).toEqual(["1", "call", "cancel"])
  await accepted("1")
  expect(begun.slice(3)).toEqual(["2"])
  await accepted("2")
  expect(begun.slice(4)).toEqual(["answer"])
  send("next", ANSWER)
  expect(begun.at(-1)).toBe("next")
})

test("progress that a server does not accept holds up an answer for a second [remote:progress-order]", async () => {
  const { clock, begun, send } = sending()
  send("1", PROGRESS)
  send("answer", ANSWER)
  await clock.pass(999)
  expect(begun).toEqual(["1"])
  await clock.pass(1)
  await settle()
  expect(begun).toEqual(["1", "answer"])
})
