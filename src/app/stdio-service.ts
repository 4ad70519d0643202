/** Serves the one client that started svc with `--transport stdio`. */
import { systemClock } from "../lib/clock.ts"
import { messageOf } from "../lib/errors.ts"
import { createStdoutWriter } from "../lib/output.ts"
import { WAITING_RESULTS } from "../serve/proxy-server.ts"
import { serveStdio } from "../serve/stdio.ts"
import { createTrustedClient } from "../serve/trusted-client.ts"
import { findProjectContext, watchProjectContext } from "./project-context.ts"
import type { Runtime } from "./runtime.ts"
import type { ServeOptions } from "./serve-options.ts"

/** Serves the client on stdin and stdout, with the project of the working directory. Resolves with the reason for the end. */
export async function serveStdioClient(
  { mcp, trustedClient: deps, log }: Runtime,
  options: ServeOptions,
): Promise<string> {
  const { maxBody, maxResult, shutdownGrace } = options
  const { promise: ended, resolve: end } = Promise.withResolvers<string>()
  const streams = { input: Bun.stdin.stream(), write: createStdoutWriter(WAITING_RESULTS * maxResult, end) }
  const directory = process.cwd()
  const note = (text: string) => log.warn(text)
  const id = mcp.newId()
  const client = createTrustedClient(findProjectContext(directory, [], note), id, deps)
  const watch = watchProjectContext(directory, [], note, (found) => {
    try {
      client.updateContext(found)
    } catch (error) {
      log.warn(messageOf(error))
    }
  })
  const { scope, initialize } = client
  const pipe = { ...mcp, id, scope, principal: "stdio", onclient: initialize }
  const served = serveStdio(streams, pipe, maxBody, systemClock, shutdownGrace)
  const reason = await Promise.race([served.then(() => "client disconnected"), ended])
  watch.close()
  client.detach()
  return reason
}
