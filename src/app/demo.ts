/** What `svc serve --demo` runs in place of a configuration, and how svc's commands reach it. */
import type { Plan, ServerSpec } from "../config/server-spec.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { ownCommand } from "../lib/own-command.ts"
import { openControlSocket } from "../serve/control-socket.ts"
import type { Paths } from "../store/paths.ts"
import { createCatalogAnswers } from "./catalog-answers.ts"
import { createControlDispatch } from "./control-handlers.ts"
import type { HttpService } from "./http-service.ts"
import type { Runtime } from "./runtime.ts"

/**
 * Opens the control socket of a demo where commands without flags look for it, so that `svc ps`, `svc mcp status` and `svc
 * search` find the demo. Returns undefined and logs the reason if another svc uses that socket or it cannot be created: the
 * demo serves clients anyway.
 */
export async function openDemoControl(
  runtime: Runtime,
  maxResult: number,
  paths: Paths,
  { url, endpoint }: Pick<HttpService, "url" | "endpoint">,
  interrupt: (reason: string) => void,
): Promise<{ close(): void } | undefined> {
  const { mcp, trustedClient, log } = runtime
  const dispatch = createControlDispatch({
    runtime,
    url: url.href,
    endpoint,
    demo: true,
    tokensProblem: () => undefined,
    follow: async () => undefined,
    tools: async () => {
      throw new UnavailableError("the demo has no configuration to change; stop it and start `svc serve`")
    },
    interrupt,
    admin: undefined,
  })
  const local = { mcp, trustedClient, maxResult, answer: createCatalogAnswers(runtime) }
  try {
    return await openControlSocket(paths, dispatch, local, url.href)
  } catch (error) {
    log.info(`svc's commands cannot reach this demo: ${messageOf(error)}`)
    return undefined
  }
}

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
