/**
 * Lets a new svc take over from a running one on the same port, without a failed call: `svc upgrade` asks the running svc for it.
 *
 *  1. The running svc starts the new program with its own arguments and environment. The new svc listens on the same port, and holds
 *     the requests that it receives.
 *  2. It says so over the control socket of the old one. Until then, nothing has changed; if it fails, the old svc goes on.
 *  3. The old svc ends each connection with its next response, so that clients open their next one to the new svc. Then it stops as
 *     usual: it lets running calls finish, and stops its servers.
 *  4. When it has ended, the new svc starts the servers, and answers what it holds.
 *
 * Two processes can share a port only on Linux.
 */
import { existsSync } from "node:fs"
import { isAbsolute } from "node:path"
import { type Clock, delay } from "../../lib/clock.ts"
import { RequestError, UnavailableError } from "../../lib/errors.ts"
import { callControl } from "../../serve/control-socket.ts"
import type { Handover, HandoverDeps, Predecessor } from "../../serve/system.ts"
import { isAlive } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"
import type { Starter } from "../../store/running.ts"
import { PREDECESSOR_VARIABLE } from "./predecessor.ts"

export class RunningHandover implements Handover {
  private successor: { readonly pid: number; readonly listens: PromiseWithResolvers<void> } | undefined

  constructor(
    private readonly deps: HandoverDeps,
    private readonly clock: Clock,
  ) {}

  async start(program: string): Promise<number> {
    const { port, startedBy, args, env } = this.deps
    if (port === undefined) throw new UnavailableError("it listens on a Unix socket, which two processes cannot share")
    if (!MANAGED.has(startedBy)) throw new UnavailableError("it was not started in the background or as a service")
    if (!isAbsolute(program) || !existsSync(program))
      throw new RequestError("invalid_params", "program must be the absolute path of a file")
    if (this.successor !== undefined) throw new RequestError("conflict", "another svc is about to take over already")
    const child = Bun.spawn({
      cmd: [program, ...args],
      env: { ...env, [PREDECESSOR_VARIABLE]: `${process.pid}:${port}` },
      stdio: ["ignore", "inherit", "inherit"],
      detached: true,
    })
    child.unref()
    const listens = Promise.withResolvers<void>()
    this.successor = { pid: child.pid, listens }
    const over = new AbortController()
    try {
      await Promise.race([
        listens.promise,
        child.exited.then((code) => {
          throw new UnavailableError(`the new svc ended with exit code ${code}; its log says why`)
        }),
        delay(this.clock, START_MS, over.signal).then(() => {
          if (!over.signal.aborted) throw new UnavailableError(`the new svc did not listen within ${START_MS / 1000} s`)
        }),
      ])
    } catch (error) {
      this.successor = undefined
      child.kill("SIGKILL")
      throw error
    } finally {
      over.abort()
    }
    return child.pid
  }

  accept(pid: number): void {
    const { successor } = this
    if (successor?.pid !== pid) throw new RequestError("conflict", `process ${pid} is not about to take over`)
    successor.listens.resolve()
    this.deps.onsuccessor(pid)
  }
}

/** The side of the successor, which listens: resolves when the old svc has ended. Rejects with an UnavailableError if it refuses, or does not end. */
export async function takeOver(paths: Paths, { pid }: Predecessor, clock: Clock, shutdownGrace: number): Promise<void> {
  const answer = await callControl(paths, "handover", { pid: process.pid })
  if (answer === undefined) throw new UnavailableError(`process ${pid}, which this svc was to replace, does not answer`)
  const until = clock.now() + shutdownGrace + END_MS
  while (isAlive(pid)) {
    if (clock.now() > until) throw new UnavailableError(`process ${pid}, which this svc was to replace, does not end`)
    await delay(clock, LOOK_MS)
  }
}

// ---

/** What starts an svc that nobody else follows: not a terminal, and no other program. */
const MANAGED: ReadonlySet<Starter> = new Set(["background", "proxy", "service"])
const START_MS = 60_000
/** How long servers may take to stop. */
const END_MS = 30_000
const LOOK_MS = 5
