/** `svc instructions`: shows the instructions that clients receive. */
import type { CommandDef } from "citty"
import { SHELL_ARGS, withShellClient } from "../commands/shell-client.ts"
import { print } from "../lib/output.ts"

export const instructions: CommandDef = {
  meta: { name: "instructions", description: "Show the instructions that clients receive, or those of one server" },
  args: {
    server: {
      type: "positional",
      required: false,
      description: "Name of one server (default: what clients receive)",
      valueHint: "server",
    },
    ...SHELL_ARGS,
  },
  run: ({ args }) =>
    withShellClient(args, async (client) => {
      const about = typeof args.server === "string" ? { server: args.server } : {}
      const found = (await client.ask("instructions", about)) as { readonly instructions: string }
      print(args.json === true, found, () => found.instructions)
      return 0
    }),
}
