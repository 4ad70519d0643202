/** The tree of commands. Each is imported when it is called, so that none pays for the imports of the others. */
import type { CommandDef } from "citty"
import { version } from "../lib/version.ts"

export const root: CommandDef = {
  meta: { name: "svc", version, description: "Offer all your MCP servers as one MCP server" },
  subCommands: {
    serve: () => import("./serve.ts").then(({ serve }) => serve),
    proxy: () => import("./proxy.ts").then(({ proxy }) => proxy),
    mcp: () => import("./mcp.ts").then(({ mcp }) => mcp),
    auth: {
      meta: { name: "auth", description: "Sign in to remote servers; manage tokens for clients" },
      subCommands: {
        login: () => import("./auth-login.ts").then(({ login }) => login),
        status: () => import("./auth-login.ts").then(({ status }) => status),
        logout: () => import("./auth-login.ts").then(({ logout }) => logout),
        token: () => import("./auth-token.ts").then(({ token }) => token),
      },
    },
    config: () => import("./config.ts").then(({ config }) => config),
    preset: () => import("./preset.ts").then(({ preset }) => preset),
    registry: () => import("./registry.ts").then(({ registry }) => registry),
    logs: () => import("./logs.ts").then(({ logs }) => logs),
    health: () => import("./health.ts").then(({ health }) => health),
    "demo-server": () => import("./demo-server.ts").then(({ demoServer }) => demoServer),
  },
}
