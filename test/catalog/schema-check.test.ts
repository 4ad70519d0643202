import { expect, test } from "bun:test"
import { AjvJsonSchemaValidator as Sdk2Validator } from "@modelcontextprotocol/client/validators/ajv"
import { AjvJsonSchemaValidator as Sdk1Validator } from "@modelcontextprotocol/sdk/validation/ajv"
import { checkSchema } from "../../src/catalog/schema-check.ts"
import type { Params } from "../../src/wire/message.ts"
import { randomSchema } from "../definitions.ts"

/** Returns why an SDK's client cannot compile a schema; undefined if both can. */
function refusal(schema: Params): string | undefined {
  for (const Validator of [Sdk1Validator, Sdk2Validator])
    try {
      new Validator().getValidator(schema as never)
    } catch (error) {
      return `${error}`
    }
  return undefined
}

test("clients on both SDKs can compile each output schema that svc lets through", () => {
  let usable = 0
  for (let seed = 0; seed < 1200; seed++) {
    const { schema: checked, problem } = checkSchema(randomSchema(seed, 0.02), true)
    if (problem !== undefined) continue
    usable++
    expect([seed, refusal(JSON.parse(JSON.stringify(checked)))]).toEqual([seed, undefined])
  }
  expect(usable).toBeGreaterThan(200)
})

test("sound schemas stay the same objects", () => {
  for (let seed = 0; seed < 3000; seed++) {
    const schema = randomSchema(seed, 0)
    const { schema: checked, repairs, problem } = checkSchema(schema, true)
    // Some references lead from one schema to the next for ever: validators do not stop.
    const isEndless = problem?.reason.includes("refers to itself") === true
    expect([seed, checked === schema, repairs, isEndless ? undefined : problem]).toEqual([seed, true, [], undefined])
  }
})
