/** `svc auth`: who svc is towards remote servers, and who may come in. */
import type { CommandDef } from "citty"
import { login, logout, status } from "./auth-login.ts"
import { token } from "./auth-token.ts"

export const auth: CommandDef = {
  meta: { name: "auth", description: "At remote servers: login, status, logout; for clients: token" },
  subCommands: { login, status, logout, token },
}
