/** What `svc serve --demo` runs in place of a configuration. */
import type { Plan, ServerSpec } from "../config/server-spec.ts"
import { ownCommand } from "./own-command.ts"

/** Returns the plan of `svc serve --demo`: `svc demo-server` as the only server. */
export function demoPlan(env: Readonly<Record<string, string | undefined>>): Plan {
  const [command, ...args] = ownCommand("demo-server")
  const demo: ServerSpec = {
    id: "demo",
    name: "demo",
    slug: "demo",
    secrets: [],
    launch: {
      transport: "stdio",
      command,
      args,
      cwd: undefined,
      env: { PATH: env.PATH ?? "" },
      stderr: "pipe",
      mode: "legacy",
    },
    tuning: {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      alwaysVisible: [],
      connectionTimeout: 15_000,
      requestTimeout: 60_000,
      restart: { kind: "supervised", limit: 5, delay: 1000 },
      isolation: "shared",
      idleTimeout: 600_000,
      maxProcesses: 50,
      toolPinning: "report",
    },
  }
  return { specs: [demo], templates: [], disabled: [], idle: [], issues: [], idleSecrets: [] }
}
