/** `mcp_uninstall`: takes a server out of the file, with a backup; where its processes do not end, it is put back. */
import * as z from "zod"
import { addServer, removeServer, writtenServers } from "../config/edit.ts"
import { substitute } from "../config/substitution.ts"
import { applyChange, reloadSchema, resolveServerName } from "./apply-change.ts"
import { pruned } from "./bundle.ts"
import { commandText, confirm, writtenValues } from "./confirm.ts"
import { acceptApplied } from "./install.ts"
import { originOf } from "./registry-entries.ts"
import { defineTool, SERVER_NAME } from "./tool.ts"

export const mcpUninstall = defineTool({
  name: "mcp_uninstall",
  category: "installation",
  title: "Uninstall an MCP server",
  description:
    "Stops a server and takes it out of mcp.json. The person confirms it. The file as it was is kept as a backup, whose name is answered. Values in .env stay; those that nothing refers to any more are named. To stop a server for a while only, use mcp_disable.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
  input: z.object({ serverName: SERVER_NAME }),
  output: z.object({
    serverName: z.string(),
    uninstalled: z.boolean(),
    backup: z.string().optional().describe("Where mcp.json as it was is kept; `svc config restore` brings it back"),
    unusedVariables: z.array(z.string()).describe("Variables of .env that no server refers to any more"),
    reload: reloadSchema,
    warnings: z.array(z.string()),
  }),
  async run({ serverName }, context) {
    const { editor, agent } = context
    const { config } = editor.read()
    const name = resolveServerName(config, serverName)
    const asked = writtenServers(config).get(name)?.server ?? {}
    await confirm(context, ["edits"], {
      what: `Uninstall the MCP server ${name}, which every client loses`,
      shown: commandText(asked, writtenValues(asked)),
    })
    return editor.exclusive(async () => {
      const before = editor.read()
      const server = writtenServers(before.config).get(name)?.server ?? {}
      const ids = agent.all().flatMap(({ spec }) => (spec.name === name ? [spec.id] : []))
      const { reload, backup } = await applyChange(context, {
        name,
        change: ({ config, dotenv }) => ({ config: removeServer(name)(config), dotenv }),
        reverse: ({ config, dotenv }) => ({ config: addServer(name, server, true)(config), dotenv }),
        accept: acceptApplied,
      })
      await Promise.all(ids.map((id) => agent.whenStopped(id)))
      const bundled = originOf(server)?.type === "mcpb"
      if (bundled) await pruned(context, name)
      const { dotenv } = editor.world(before.dotenv)
      const still = referencesOf(editor.read().config)
      const unused = [...referencesOf(before.config)].filter(
        (variable) => !still.has(variable) && Object.hasOwn(dotenv, variable),
      )
      return {
        data: {
          serverName: name,
          uninstalled: true,
          ...(backup === undefined ? {} : { backup }),
          unusedVariables: unused,
          reload,
          warnings: [
            ...(unused.length === 0 ? [] : [`.env still has ${unused.join(", ")}, which nothing refers to any more`]),
            ...(bundled
              ? ["its bundle is gone: what the backup brings back must be uninstalled and installed again"]
              : []),
          ],
        },
        text: `uninstalled ${name}`,
      }
    })
  },
})

// ---

/** The variables that a text refers to. */
function referencesOf(config: string): ReadonlySet<string> {
  const names = new Set<string>()
  substitute(config, (name) => {
    names.add(name)
    return ""
  })
  return names
}
