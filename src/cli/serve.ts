/** `svc serve`: runs the servers of mcp.json and offers them as one MCP server. */
import type { CommandDef } from "citty"
import { openContext } from "../app/command-context.ts"
import { readServeOptions, SERVE_OPTIONS } from "../app/serve-options.ts"
import { runService } from "../app/service.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: SERVE_OPTIONS,
  run({ args }) {
    const options = readServeOptions(args, process.env, process.platform)
    return runService(options, options.demo ? undefined : openContext(args).paths)
  },
}
