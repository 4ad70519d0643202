/** Connects to the socket on which the running svc serves `svc proxy` and the other commands that are its clients. */
import type { Socket } from "bun"
import { proxyEndpoint } from "../serve/control-socket.ts"
import type { ProxyDeps } from "../serve/proxy-client.ts"
import { createSendQueue } from "../serve/proxy-server.ts"
import type { InstanceConnection } from "../serve/proxy-state.ts"
import type { Paths } from "../store/paths.ts"
import { createSplitter } from "../wire/lines.ts"

/** The longest line in either direction: no smaller than the limits of svc, which apply. */
export const MAX_PROXY_LINE = 64 * 1024 * 1024
/** The most bytes that may wait for a reader. */
export const MAX_PROXY_WAITING = 128 * 1024 * 1024

/** Connects to the instance of a configuration; resolves with undefined if none runs. */
export async function connectToProxySocket(
  paths: Paths,
  { line, lost }: Parameters<ProxyDeps["connect"]>[0],
): Promise<InstanceConnection | undefined> {
  const endpoint = proxyEndpoint(paths)
  if (endpoint === undefined || endpoint.lost) return undefined
  let socket: Socket<undefined> | undefined
  const outbox = createSendQueue(
    () => socket as Socket<unknown> | undefined,
    MAX_PROXY_WAITING,
    () => socket?.terminate(),
  )
  const feed = createSplitter(line, MAX_PROXY_LINE, () => undefined)
  socket = await Bun.connect({
    ...(endpoint.address as { unix: string }),
    socket: {
      data: (_socket, bytes) => feed(bytes),
      drain: () => outbox.drain(),
      close: () => lost(),
      error: () => undefined,
    },
  })
  return { link: { send: outbox.write, close: () => void socket?.end() }, token: endpoint.token }
}
