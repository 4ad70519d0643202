/** `svc serve`: runs the servers of mcp.json and offers them as one MCP server. */
import type { CommandDef } from "citty"
import { openContext } from "../app/command-context.ts"
import { say } from "../app/output.ts"
import { readServeOptions, SERVE_OPTIONS } from "../app/serve-options.ts"
import { runService } from "../app/service.ts"
import { readOptions, usageError } from "../lib/command-line.ts"

export const serve: CommandDef = {
  meta: { name: "serve", description: "Run the servers of mcp.json and offer them as one MCP server" },
  args: SERVE_OPTIONS,
  run({ args }) {
    const options = readServeOptions(args, process.env, process.platform)
    if (options.demo && args.config !== undefined)
      throw usageError("--demo serves no configuration: leave out --demo or --config")
    if (options.demo && args["config-dir"] !== undefined) say("--config-dir has no effect with --demo")
    const mayCreate = readOptions(args, process.env).flag("init")
    const configFlags = (["config", "config-dir"] as const).flatMap((flag) => {
      const value = args[flag]
      return typeof value === "string" && !options.demo ? [`--${flag}`, value] : []
    })
    return runService(
      options,
      options.demo ? undefined : openContext(args, mayCreate ? "allowed" : "refused").paths,
      configFlags,
    )
  },
}
