/** The sources of secrets on this machine. */
import { createShortCommands } from "../../backend/short-command.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import { systemClock } from "../../lib/clock.ts"
import { readRegularFile } from "../../store/files.ts"
import { MAX_BYTES, type SecretSources } from "./references.ts"

/** The service under which svc keeps secrets in the keychain of the system. */
export const KEYCHAIN_SERVICE = "svc"

/** Returns the keychain, the files and the programs of this machine. Programs run in the folder of the configuration, without SVC_*. */
export function systemSources(host: Pick<HostEnvironment, "folder" | "parent">): SecretSources {
  const run = createShortCommands({ ...host, clock: systemClock })
  return {
    keychain: (name) => Bun.secrets.get({ service: KEYCHAIN_SERVICE, name }),
    file: readRegularFile,
    command: (words, signal) => run(words, signal, { maxBytes: MAX_BYTES }),
  }
}
