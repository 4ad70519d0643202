/** The sources of secrets on this machine. */
import { createReaper, type Reaper } from "../../backend/reaper.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import { RequestError } from "../../lib/errors.ts"
import { readRegularFile } from "../../store/files.ts"
import { MAX_BYTES, type SecretSources } from "./references.ts"

/** The service under which svc keeps secrets in the keychain of the system. */
export const KEYCHAIN_SERVICE = "svc"

/**
 * Returns the keychain, the files and the programs of this machine. Programs run in the folder of the configuration, without SVC_*. What
 * a program has started ends with it, and the program ends with svc.
 */
export function systemSources({ folder, parent }: Pick<HostEnvironment, "folder" | "parent">): SecretSources {
  const env = Object.fromEntries(Object.entries(parent).filter(([name]) => !name.startsWith("SVC_")))
  let reaper: Promise<Reaper> | undefined
  return {
    keychain: (name) => Bun.secrets.get({ service: KEYCHAIN_SERVICE, name }),
    file: readRegularFile,
    async command([program = "", ...args], signal) {
      const path = Bun.which(program, { PATH: env.PATH ?? "", cwd: folder })
      if (path === null) throw new RequestError("not_found", "the program is not found")
      reaper ??= openReaper()
      const { child, group } = (await reaper).start((mark) =>
        Bun.spawn({
          cmd: [path, ...args],
          cwd: folder,
          env,
          stdio: ["ignore", "pipe", "pipe", ...(mark === undefined ? [] : [mark])],
          detached: !WINDOWS,
          windowsHide: true,
        }),
      )
      const end = () => {
        if (!group.isEmpty()) group.signal("SIGKILL")
        // Windows may have refused to put it into the group.
        child.kill("SIGKILL")
      }
      signal.addEventListener("abort", end)
      if (signal.aborted) end()
      try {
        const [stdout, stderr] = [beginOf(child.stdout, end), beginOf(child.stderr, () => undefined)]
        const exitCode = await child.exited
        // What it has started would keep the pipes open.
        end()
        return { exitCode, stdout: await stdout, stderr: await stderr }
      } finally {
        signal.removeEventListener("abort", end)
        group.close()
      }
    },
  }
}

// ---

const WINDOWS = process.platform === "win32"

/** Opens what ends the programs if svc is killed. */
async function openReaper(): Promise<Reaper> {
  if (!WINDOWS) return createReaper(() => undefined)
  const { createJobReaper } = await import("../../backend/job-object.ts")
  return createJobReaper(() => undefined)
}

/** Returns what a stream has, up to one byte more than the longest value. Calls `onlong` if there is more, and drops the rest. */
async function beginOf(stream: ReadableStream<Uint8Array>, onlong: () => void): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of stream) {
    if (length > MAX_BYTES) continue
    chunks.push(chunk)
    length += chunk.length
    if (length > MAX_BYTES) onlong()
  }
  return new TextDecoder().decode(Buffer.concat(chunks).subarray(0, MAX_BYTES + 1))
}
