/** A real Redis (or Valkey) for tests, on a free port of this machine, without files. */

import { RedisClient } from "bun"
import { openRedisState } from "../src/features/cluster/redis-state.ts"
import type { SharedState } from "../src/features/cluster/shared-state.ts"
import { systemClock } from "../src/lib/clock.ts"
import { freePort } from "./e2e/harness.ts"
import { type SharedNetwork, settleStates } from "./memory-network.ts"
import { until } from "./process.ts"

export type RedisServer = AsyncDisposable & {
  readonly url: string
  readonly port: number
  /** Ends it as a crash does: everything in it is lost. */
  kill(): Promise<void>
  /** Starts it again on the same port. */
  start(): Promise<void>
  /** Stops answering without closing connections, like a network that drops packets. */
  pause(): void
  resume(): void
  /** Runs a Redis command as its operator. */
  order(command: string, ...args: readonly string[]): Promise<unknown>
}

/** redis-check-rdb is the Redis server under another name; Debian's redis-tools contains only this one. */
const COMMAND = Bun.which("redis-server") ?? Bun.which("valkey-server") ?? Bun.which("redis-check-rdb")

/** The reason why no Redis is available, or undefined if one is. */
export const NO_REDIS = COMMAND === null ? "needs redis-server or valkey-server" : undefined

if (NO_REDIS !== undefined)
  process.stderr.write("the tests of replicas are skipped: there is no Redis or Valkey (apt-get install redis-tools)\n")

export async function startRedis(...args: readonly string[]): Promise<RedisServer> {
  const port = await freePort()
  const spawn = () =>
    Bun.spawn({
      cmd: [COMMAND ?? "redis-server", "--port", String(port), "--bind", "127.0.0.1", "--save", "", ...args],
      argv0: "redis-server",
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    })
  let child: ReturnType<typeof spawn>
  const start = async () => {
    child = spawn()
    let text = ""
    const decoder = new TextDecoder()
    for await (const chunk of child.stdout) {
      text += decoder.decode(chunk)
      if (/Ready to accept connections/i.test(text)) return
    }
    throw new Error(`Redis did not start: ${text}`)
  }
  await start()
  const kill = async () => {
    child.kill(9)
    await child.exited
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    kill,
    start,
    pause: () => child.kill("SIGSTOP"),
    resume: () => child.kill("SIGCONT"),
    async order(command, ...args) {
      const client = new RedisClient(`redis://127.0.0.1:${port}`)
      try {
        return await client.send(command, [...args])
      } finally {
        client.close()
      }
    },
    [Symbol.asyncDispose]: kill,
  }
}

/** Opens a network to a separate Redis. */
export async function redisNetwork(): Promise<SharedNetwork> {
  await using opened = new AsyncDisposableStack()
  const redis = opened.use(await startRedis())
  const states = new Set<SharedState>()
  type Data = { readonly peer: Promise<Bun.Socket> }
  const sockets = new Set<Bun.Socket<Data>>()
  const listen = (port: number) =>
    Bun.listen<Data>({
      hostname: "127.0.0.1",
      port,
      socket: {
        open(socket) {
          sockets.add(socket)
          const peer = Bun.connect({
            hostname: "127.0.0.1",
            port: redis.port,
            socket: { data: (_, bytes) => void socket.write(bytes), close: () => void socket.end() },
          })
          socket.data = { peer }
        },
        data: ({ data: { peer } }, bytes) => void peer.then((to) => to.write(bytes)),
        close(socket) {
          sockets.delete(socket)
          void socket.data.peer.then((to) => to.end())
        },
      },
    })
  let listener: ReturnType<typeof listen> | undefined = listen(0)
  const { port } = listener
  const agree = (connected: boolean) =>
    until(() => [...states].every((state) => state.connected === connected), "the state of the network")
  opened.defer(() => {
    for (const state of states) state.close()
    listener?.stop(true)
  })
  const all = opened.move()
  return {
    async open() {
      const state = openRedisState({
        url: `redis://127.0.0.1:${port}`,
        prefix: "t:",
        clock: systemClock,
        newId: () => crypto.randomUUID(),
        onproblem() {},
        onevicting() {},
        onunfit() {},
        onaccepting() {},
      })
      states.add(state)
      await agree(true)
      return state
    },
    async cut() {
      listener?.stop(true)
      listener = undefined
      for (const socket of sockets) socket.terminate()
      await agree(false)
    },
    async mend() {
      listener = listen(port)
      await agree(true)
    },
    clear: async () => void (await redis.order("FLUSHALL")),
    settle: () => settleStates(states),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}
