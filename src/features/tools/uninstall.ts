/** `mcp_uninstall`: removes a server from the file, with a backup, and stops its processes. */
import * as z from "zod"
import { addServer, removeServer } from "../../config/edit.ts"
import { quoted } from "../../config/server-text.ts"
import { substitute } from "../../config/substitution.ts"
import { writtenValues } from "../../config/written-values.ts"
import type { WrittenDocuments } from "../../store/transaction.ts"
import { applyChange, refuseUnapplied, reloadSchema } from "./apply-change.ts"
import { pruneBundles } from "./bundle.ts"
import { confirm } from "./consent.ts"
import { questionOn } from "./consent-text.ts"
import { configChange, requireUnchanged, resolveServerName, writtenServer } from "./plan-change.ts"
import { originOf } from "./registry-entries.ts"
import { defineTool, SERVER_NAME, type ToolContext } from "./tool.ts"

export const mcpUninstall = defineTool({
  name: "mcp_uninstall",
  category: "installation",
  title: "Uninstall an MCP server",
  description:
    "Stops a server and removes it from mcp.json, once a person has approved it. svc keeps the previous file as a backup, which the result names. Values in .env stay; the result names those that no server uses any longer. To stop a server temporarily, use mcp_disable.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
  input: z.object({ serverName: SERVER_NAME }),
  output: z.object({
    serverName: z.string(),
    uninstalled: z.boolean(),
    backup: z.string().optional().describe("The backup of the previous mcp.json; `svc config restore` restores it"),
    unusedVariables: z.array(z.string()).describe("Variables of .env that no server uses any longer"),
    reload: reloadSchema,
    warnings: z.array(z.string()),
  }),
  async run({ serverName }, context) {
    const documents = context.editor.read()
    const name = resolveServerName(documents.config, serverName)
    const server = writtenServer(documents.config, name)
    const question = { server, kept: writtenValues(server) }
    await confirm(
      context,
      ["edits"],
      questionOn(`Uninstall the MCP server ${quoted(name)}, and take its tools from every client`, question),
    )
    return context.editor.exclusive(() => uninstall(context, name, documents))
  },
})

// ---

async function uninstall(context: ToolContext, name: string, asked: WrittenDocuments) {
  const { editor, agent } = context
  const before = editor.read()
  const server = writtenServer(before.config, name)
  const ids = agent.all().flatMap(({ spec }) => (spec.name === name ? [spec.id] : []))
  const { reload, backup } = await applyChange(context, {
    name,
    change(written) {
      requireUnchanged(written, asked, name)
      return configChange(removeServer(name))(written)
    },
    reverse: () => configChange(addServer(name, server, true)),
    refuse: refuseUnapplied,
  })
  await Promise.all(ids.map((id) => agent.whenStopped(id)))
  const hadBundle = originOf(server)?.type === "mcpb"
  if (hadBundle) await pruneBundles(context, name)
  const { dotenv } = editor.world(before.dotenv)
  const remaining = referencesOf(editor.read().config)
  const unused = [...referencesOf(before.config)].filter(
    (variable) => !remaining.has(variable) && Object.hasOwn(dotenv, variable),
  )
  const warnings: string[] = []
  if (unused.length > 0) warnings.push(`.env still has ${unused.join(", ")}, which no server uses any longer`)
  if (hadBundle)
    warnings.push("its bundle was removed; after restoring the backup, uninstall the server and install it again")
  return {
    data: { serverName: name, uninstalled: true, backup, unusedVariables: unused, reload, warnings },
    text: `uninstalled ${name}`,
  }
}

/** Returns the variables to which a text refers. */
function referencesOf(config: string): ReadonlySet<string> {
  const names = new Set<string>()
  substitute(config, (name) => {
    names.add(name)
    return ""
  })
  return names
}
