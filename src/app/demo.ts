/** What `svc serve --demo` runs in place of the user's configuration, and how svc's commands reach it. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
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
  { url, endpoint, admin }: Pick<HttpService, "url" | "endpoint" | "admin">,
  interrupt: (reason: string) => void,
): Promise<{ close(): void } | undefined> {
  const { mcp, trustedClient, log } = runtime
  const dispatch = createControlDispatch({
    runtime,
    url: url.href,
    endpoint,
    keepsAddress: false,
    demo: true,
    tokensProblem: () => undefined,
    follow: async () => undefined,
    tools: async () => {
      throw new UnavailableError("the demo has no configuration to change; stop it and start `svc serve`")
    },
    interrupt,
    admin,
    handover: undefined,
  })
  const local = { mcp, trustedClient, maxResult, answer: createCatalogAnswers(runtime) }
  try {
    return await openControlSocket(paths, dispatch, local, url.href)
  } catch (error) {
    log.info(`svc's commands cannot reach this demo: ${messageOf(error)}`)
    return undefined
  }
}

/** Where the configuration of a demo is. */
export type DemoFolder = { readonly paths: Paths; remove(): void }

/** Creates the configuration of `svc serve --demo` in a temporary folder: `svc demo-server` as the only server. */
export function createDemoFolder(): DemoFolder {
  const directory = mkdtempSync(join(tmpdir(), "svc-demo-"))
  const [command, ...args] = ownCommand("demo-server")
  const config = { mcpServers: { demo: { command, args, protocolVersion: "legacy", restartOnExit: true } } }
  const file = join(directory, "mcp.json")
  writeFileSync(file, `${JSON.stringify(config, null, 2)}\n`, { mode: 0o600 })
  return {
    paths: { directory, file, dotenv: join(directory, ".env"), presets: join(directory, "presets.json") },
    remove() {
      try {
        rmSync(directory, { recursive: true, force: true })
      } catch {
        // On Windows, a file of it may still be open. The system empties its folder for temporary files.
      }
    },
  }
}
