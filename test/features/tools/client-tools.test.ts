import { expect, test } from "bun:test"
import { viewFor } from "../../../src/call/ready.ts"
import { emptyCatalog, viewOf } from "../../../src/catalog/catalog.ts"
import { narrow, type Scope } from "../../../src/catalog/scope.ts"
import { managementTools } from "../../../src/features/tools/client-tools.ts"
import type { Toolbox } from "../../../src/features/tools/toolbox.ts"
import type { Params } from "../../../src/wire/message.ts"
import { AGGREGATE, fakeClient, fakeExchange, fakeGateway } from "../../fakes.ts"

/** Asks a person through a client that answers the form with `answer`. Returns whether they agreed, and the form. */
async function ask(answer: unknown) {
  let form: Params = {}
  let agreed: boolean | undefined
  const toolbox: Toolbox = {
    entries: [],
    names: ["t"],
    async call(_name, _args, { person }) {
      agreed = await person?.agrees("Run x?", "Yes, run exactly this")
      return { content: [], structuredContent: {} }
    },
  }
  const exchange = fakeExchange({
    ask(_method, params) {
      form = params ?? {}
      return Promise.resolve(answer)
    },
  })
  const client = fakeClient("legacy", { capabilities: { elicitation: {} } })
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "t" } } as const
  const gateway = fakeGateway()
  const call = { request, client, exchange, gateway }
  await managementTools(() => toolbox).run(call, viewFor(call))
  return { agreed, form }
}

test("a person agrees only through confirm: true, and the form has no default [tools:form]", async () => {
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

test("only clients of all servers have the management tools, and a token for some tags denies them", () => {
  const toolbox: Toolbox = { entries: ['{"name":"t"}'], names: ["t"], call: () => undefined }
  const own = managementTools(() => toolbox)
  const view = viewOf(emptyCatalog(), AGGREGATE)
  const listed = ['{"name":"s_svc_read"}']
  const asked = (scope: Scope) => {
    const client = fakeClient("legacy", { scope })
    return [own.has("t", { client }, view), own.list(listed, client, view), own.entries(client, view)]
  }
  expect(asked(AGGREGATE)).toEqual(["offered", [...toolbox.entries, ...listed], toolbox.entries])
  expect(asked(narrow(AGGREGATE, "web", () => true))).toEqual(["denied", listed, []])
  expect(asked({ kind: "server", id: "s" })).toEqual([undefined, listed, []])
})
