/** `svc serve`: runs the servers of mcp.json and offers them as one MCP server. */
import type { CommandDef } from "citty"
import { openContext } from "../app/command-context.ts"
import { runService } from "../app/service.ts"
import { readSettings, SERVE_ARGS } from "../app/settings.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: SERVE_ARGS,
  run({ args }) {
    const settings = readSettings(args, process.env, process.platform)
    return runService(settings, settings.demo ? undefined : openContext(args).paths)
  },
}
