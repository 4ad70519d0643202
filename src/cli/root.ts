/** The tree of commands. Each is loaded only when it is called: a command must not pay for the others' imports. */
import type { CommandDef } from "citty"
import { version } from "../lib/version.ts"

export const root: CommandDef = {
  meta: { name: "svc", version, description: "One MCP server in front of all of yours" },
  subCommands: {
    serve: () => import("./serve.ts").then(({ serve }) => serve),
    "demo-server": () => import("./demo.ts").then(({ demoServer }) => demoServer),
  },
}
