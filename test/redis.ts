/** A real Redis (or Valkey) for tests, on a free port of this machine, without files. */
import { freePort } from "./e2e/harness.ts"

export type RedisServer = AsyncDisposable & {
  readonly url: string
  readonly port: number
  /** Ends it as a crash does: everything in it is lost. */
  kill(): Promise<void>
  /** Starts it again on the same port. */
  start(): Promise<void>
  /** Stops answering without closing connections, as a network that drops packets. */
  pause(): void
  resume(): void
}

/** Redis's redis-check-rdb is the server under another name; Debian's redis-tools has it alone. */
const COMMAND = Bun.which("redis-server") ?? Bun.which("valkey-server") ?? Bun.which("redis-check-rdb")

/** Why there is no Redis here; undefined if there is. */
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
    [Symbol.asyncDispose]: kill,
  }
}
