/** The network and the programs of this machine, for notifications. */
import { RequestError } from "../../lib/errors.ts"
import type { Senders } from "./send.ts"

/** Returns the senders of this machine. Commands run in `folder`, the folder of the configuration, without SVC_* of svc itself. */
export function systemSenders(
  folder: string,
  parent: Readonly<Record<string, string | undefined>>,
  commands: () => boolean,
): Senders {
  const env = Object.fromEntries(Object.entries(parent).filter(([name]) => !name.startsWith("SVC_")))
  return {
    send: (url, init) => fetch(url, { ...init, redirect: "manual" }),
    now: () => Date.now(),
    commands,
    async run([program = "", ...args], input, variables, signal) {
      const path = Bun.which(program, { PATH: env.PATH ?? "", cwd: folder })
      if (path === null) throw new RequestError("not_found", "the program is not found")
      const child = Bun.spawn([path, ...args], {
        cwd: folder,
        env: { ...env, ...variables },
        stdin: Buffer.from(input),
        stdout: "ignore",
        stderr: "pipe",
        signal,
        maxBuffer: MAX_BYTES,
        killSignal: "SIGKILL",
        windowsHide: true,
      })
      const [stderr, exitCode] = await Promise.all([child.stderr.text(), child.exited])
      return { exitCode, stderr }
    },
  }
}

// ---

const MAX_BYTES = 64 * 1024
