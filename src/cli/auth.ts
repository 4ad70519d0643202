/** `svc auth`: who svc is towards remote servers. */
import type { CommandDef } from "citty"
import { login, logout, status } from "./login.ts"

export const auth: CommandDef = {
  meta: { name: "auth", description: "Authorization at remote servers: login, status, logout" },
  subCommands: { login, status, logout },
}
