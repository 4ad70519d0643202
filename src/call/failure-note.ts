/** Adds sentences to the texts of failures: what a server offers now, and what the caller may do. */
import type { View } from "../catalog/catalog.ts"
import { counted } from "../lib/text.ts"
import { parseRelayed } from "../wire/frame.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import type { Answer } from "./answer.ts"

/** Returns a text with a sentence after it. */
export const withSentence = (text: string, sentence: string): string =>
  `${text}${/[.?!]$/.test(text) ? "" : "."} ${sentence}`

/** Returns a failed answer with a sentence after its text. */
export function withFailureNote(answer: Answer, sentence: string): Answer {
  const message: unknown = parseRelayed(answer.frame)
  if (!isObject(message)) return answer
  const { result, error } = message
  const changed = isObject(error)
    ? { error: { ...error, message: withSentence(asText(error.message), sentence) } }
    : { result: withText(isObject(result) ? result : {}, sentence) }
  return { ...answer, outcome: answer.outcome, frame: JSON.stringify({ ...message, ...changed }) }
}

/** Returns a sentence that names the tools or prompts of a server in a view. */
export function offerNote(kind: "tools" | "prompts", view: View, id: string): string {
  const names = [...view[kind]].flatMap(([name, route]) => (route.id === id ? [name] : []))
  const shown = names.slice(0, MAX_OFFERED).join(", ")
  const rest = names.length > MAX_OFFERED ? ` and ${counted(names.length - MAX_OFFERED, "other")}` : ""
  return `The server now offers ${names.length === 0 ? `no ${kind}` : `${shown}${rest}`}`
}

// ---

/** The most names in one sentence. */
const MAX_OFFERED = 20

function withText(result: Params, text: string): Params {
  const content = Array.isArray(result.content) ? result.content : []
  return { ...result, content: [...content, { type: "text", text }] }
}
