/** Answers a server's elicitation at the terminal. client: Elicitation. */
import { RequestError } from "../lib/errors.ts"
import { say } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { printableLines } from "../lib/table.ts"
import { asText, isObject, type Params } from "../wire/message.ts"
import { allowsList, choicesOf, itemsOf, readValue } from "./tool-arguments.ts"

/**
 * Shows a question of `server` to the person, and returns the answer: declined if the person does not want to answer,
 * cancelled without a terminal or after too many invalid values. Rejects with Interrupted at Ctrl-C.
 */
export async function answerElicitation(server: string, params: Params): Promise<Params> {
  say(`${server} asks: ${asText(params.message ?? "")}`)
  if (!isInteractive()) {
    say("svc run answers such questions only at a terminal, so it cancels this one")
    return { action: "cancel" }
  }
  if (params.mode === "url") {
    say(`  ${asText(params.url)}`)
    return { action: (await promptYesNo("open this address in a browser, then continue?")) ? "accept" : "decline" }
  }
  if (!(await promptYesNo("answer?"))) return { action: "decline" }
  const schema = isObject(params.requestedSchema) ? params.requestedSchema : {}
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
  const content: [string, unknown][] = []
  for (const [name, field] of Object.entries(isObject(schema.properties) ? schema.properties : {})) {
    const answer = await promptField(name, isObject(field) ? field : {}, required.includes(name))
    if (answer === undefined) return { action: "cancel" }
    if (answer !== "left out") content.push([name, answer.value])
  }
  return { action: "accept", content: Object.fromEntries(content) }
}

// ---

/** How often the person may enter a value. */
const ATTEMPTS = 3

/** Asks for one value until it is valid; undefined after too many invalid ones. */
async function promptField(
  name: string,
  field: Params,
  required: boolean,
): Promise<{ readonly value: unknown } | "left out" | undefined> {
  const isList = allowsList(field, field)
  const choices = choicesOf(isList ? ((itemsOf(field, field) ?? {}) as Params) : field, field)
  const hints = [
    [field.title, field.description].filter((text) => typeof text === "string" && text !== "").join(", "),
    choices.map(({ value, title }) => (title === undefined ? value : `${value} = ${title}`)).join(" | "),
    isList ? "comma-separated" : "",
    field.type === "boolean" ? "true or false" : "",
    field.default === undefined ? "" : `default ${asText(field.default)}`,
    required ? "" : "optional",
  ].filter((hint) => hint !== "")
  const label = printableLines(`${name}${hints.length === 0 ? "" : ` (${hints.join("; ")})`}`)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const text = (await promptLine(`${label}: `, false)).trim()
    if (text === "" && field.default !== undefined) return { value: field.default }
    if (text === "" && !required) return "left out"
    try {
      if (text === "" && !isList) throw new RequestError("usage", `${name} is required`)
      const items = text.split(",").flatMap((one) => one.trim() || [])
      const value = isList ? items.map((one) => readValue(name, one, itemsOf(field, field), field)) : undefined
      return { value: value ?? readValue(name, text, field, field) }
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      say(error.message)
    }
  }
  return undefined
}
