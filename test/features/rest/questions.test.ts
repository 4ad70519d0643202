import { expect, test } from "bun:test"
import { Questions } from "../../../src/features/rest/questions.ts"

const FORM = { message: "Who?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } }

/** Questions with a page that records what it is told. */
function open() {
  let last = 0
  const questions = new Questions(() => String(++last))
  const told: unknown[] = []
  const close = questions.watch((event, data) => told.push([event, data]))
  return { questions, told, close }
}

test("a question reaches the page, and its answer the tool [admin:asks]", async () => {
  const { questions, told } = open()
  const asked = questions.ask("mine", "elicitation/create", FORM, new AbortController().signal)
  expect(told).toEqual([["question", { id: "1", asks: "mine", ...FORM }]])
  questions.answer("1", { action: "accept", content: { name: "Ada" } })
  expect(await asked).toEqual({ action: "accept", content: { name: "Ada" } })
  expect(told.at(-1)).toEqual(["answered", { id: "1" }])
  expect(() => questions.answer("1", { action: "decline" })).toThrow("no longer waits")
})

test("a question ends with its call, and a page that opens later sees only what still waits [admin:asks]", async () => {
  const { questions, close } = open()
  const call = new AbortController()
  const asked = questions.ask(
    "a",
    "elicitation/create",
    { message: "Visit", mode: "url", url: "https://x.example/" },
    call.signal,
  )
  const later: unknown[] = []
  questions.watch((event, data) => later.push([event, data]))
  expect(later).toEqual([["question", { id: "1", asks: "a", message: "Visit", url: "https://x.example/" }]])
  call.abort(new Error("gone"))
  await expect(asked).rejects.toThrow("gone")
  expect(later.at(-1)).toEqual(["answered", { id: "1" }])
  close()
})

test("without a page, a question is cancelled, and other requests are refused [admin:asks]", async () => {
  const questions = new Questions(() => "1")
  const { signal } = new AbortController()
  expect(await questions.ask("a", "elicitation/create", FORM, signal)).toEqual({ action: "cancel" })
  await expect(questions.ask("a", "sampling/createMessage", {}, signal)).rejects.toThrow("only questions to a person")
})
