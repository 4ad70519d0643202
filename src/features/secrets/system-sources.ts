/** The sources of secrets on this machine. */
import type { HostEnvironment } from "../../config/plan.ts"
import { RequestError } from "../../lib/errors.ts"
import { readRegularFile } from "../../store/files.ts"
import { MAX_BYTES, type SecretSources } from "./references.ts"

/** The service under which svc keeps secrets in the keychain of the system. */
export const KEYCHAIN_SERVICE = "svc"

/** Returns the keychain, the files and the programs of this machine. Programs run in the folder of the configuration, without SVC_*. */
export function systemSources({ folder, parent }: Pick<HostEnvironment, "folder" | "parent">): SecretSources {
  const env = Object.fromEntries(Object.entries(parent).filter(([name]) => !name.startsWith("SVC_")))
  return {
    keychain: (name) => Bun.secrets.get({ service: KEYCHAIN_SERVICE, name }),
    file: readRegularFile,
    async command([program = "", ...args], signal) {
      const path = Bun.which(program, { PATH: env.PATH ?? "", cwd: folder })
      if (path === null) throw new RequestError("not_found", "the program is not found")
      const child = Bun.spawn([path, ...args], {
        cwd: folder,
        env,
        stdin: "ignore",
        stdout: "pipe",
        stderr: "pipe",
        signal,
        // It also bounds the memory: nobody needs the rest.
        maxBuffer: MAX_BYTES,
        killSignal: "SIGKILL",
        windowsHide: true,
      })
      const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
      return { exitCode, stdout, stderr }
    },
  }
}
