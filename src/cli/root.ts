/** The tree of commands. Each is loaded only when it is called: a command must not pay for the others' imports. */
import type { CommandDef } from "citty"
import { version } from "../lib/version.ts"

export const root: CommandDef = {
  meta: { name: "svc", version, description: "One MCP server in front of all of yours" },
  subCommands: {
    serve: () => import("./serve.ts").then(({ serve }) => serve),
    proxy: () => import("./proxy.ts").then(({ proxy }) => proxy),
    mcp: () => import("./mcp.ts").then(({ mcp }) => mcp),
    auth: () => import("./auth.ts").then(({ auth }) => auth),
    config: () => import("./config.ts").then(({ config }) => config),
    preset: () => import("./preset.ts").then(({ preset }) => preset),
    registry: () => import("./registry.ts").then(({ registry }) => registry),
    logs: () => import("./logs.ts").then(({ logs }) => logs),
    health: () => import("./health.ts").then(({ health }) => health),
    "demo-server": () => import("./demo-server.ts").then(({ demoServer }) => demoServer),
  },
}
