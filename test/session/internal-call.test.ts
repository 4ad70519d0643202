import { expect, test } from "bun:test"
import { Cancellation } from "../../src/session/cancellation.ts"
import type { RequestContext } from "../../src/session/client.ts"
import { callInternalTool } from "../../src/session/internal-call.ts"
import type { Toolbox } from "../../src/tools/toolbox.ts"

/** Asks a person through a client that answers the form with `answer`. Returns whether they agreed, and the form. */
async function ask(answer: unknown) {
  let form: Record<string, unknown> = {}
  let agreed: boolean | undefined
  const toolbox: Toolbox = {
    entries: [],
    names: ["t"],
    async call(_name, _args, { person }) {
      agreed = await person?.agrees("Run x?", "Yes, run exactly this")
      return { content: [], structuredContent: {} }
    },
  }
  const context = {
    client: { era: "legacy", capabilities: { elicitation: {} } },
    exchange: {
      cancellation: new Cancellation(),
      ask(_method: string, params: typeof form) {
        form = params
        return Promise.resolve(answer)
      },
    },
  } as unknown as RequestContext
  const params = { name: "t" }
  await callInternalTool({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, params, toolbox, context)
  return { agreed, form }
}

test("a person agrees by confirm: true alone, and the form has no default [tools:form]", async () => {
  const { agreed, form } = await ask({ action: "accept", content: { confirm: true } })
  expect(agreed).toBe(true)
  expect(form).toEqual({
    message: "Run x?",
    requestedSchema: {
      type: "object",
      properties: { confirm: { type: "boolean", title: "Yes, run exactly this" } },
      required: ["confirm"],
    },
  })
  for (const content of [undefined, {}, { confirm: false }, { confirm: "true" }])
    expect((await ask({ action: "accept", content })).agreed).toBe(false)
  expect((await ask({ action: "decline", content: { confirm: true } })).agreed).toBe(false)
  expect((await ask(undefined)).agreed).toBe(false)
})
