/**
 * Warns if replicas have differed for a minute in files or settings that decide what clients see and who gets in. A rollout takes
 * less time; a forgotten file or flag stays different. Replicas exchange digests.
 */

import { parseDocument } from "../../config/document.ts"
import { type Clock, every } from "../../lib/clock.ts"
import { digest } from "../../lib/digest.ts"
import { messageOf } from "../../lib/errors.ts"
import type { Log } from "../../lib/log.ts"
import { passphraseMark } from "../../store/secret-store.ts"
import type { ReplicaFacts, Replicas } from "./replicas.ts"

export type ConfigurationDrift = {
  /** The ids of the replicas that have differed from this one for a minute. */
  readonly differing: readonly string[]
  close(): void
}

/** Starts to compare the replicas. Logs each change in which replicas differ, or in what. */
export function watchConfigurations(
  replicas: Pick<Replicas, "all">,
  clock: Clock,
  log: Pick<Log, "warn" | "info">,
): ConfigurationDrift {
  const since = new Map<string, number>()
  let differing: readonly string[] = []
  let reported = ""
  const check = () => {
    const all = replicas.all()
    const own = all.find(({ self }) => self)
    const others = all.flatMap((replica) => {
      const names = own === undefined || replica.self ? [] : differences(own, replica)
      return names.length === 0 ? [] : [{ id: replica.id, text: `${replica.id} (${names.join(", ")})` }]
    })
    for (const id of [...since.keys()]) if (!others.some((other) => other.id === id)) since.delete(id)
    for (const { id } of others) if (!since.has(id)) since.set(id, clock.now())
    const drifted = others.filter(({ id }) => clock.now() - (since.get(id) ?? 0) >= DRIFT_MS)
    differing = drifted.map(({ id }) => id)
    const text = drifted.map((one) => one.text).join(", ")
    if (text !== reported)
      if (text !== "")
        log.warn(
          `replicas have differed from this one for over a minute: ${text}; give all replicas the same files and flags, or what clients see and may do depends on the replica that they reach`,
        )
      else log.info("all replicas have the same configuration")
    reported = text
  }
  const cancel = every(clock, CHECK_MS, check)
  return {
    get differing() {
      return differing
    },
    close: cancel,
  }
}

/** Returns a digest of the content of a configuration file, independent of its format and comments. `read` may throw. */
export function contentDigest(read: () => string | undefined): string {
  let text = ""
  try {
    text = read() ?? ""
    const { $schema: _, ...content } = parseDocument(text, "").value
    return digest(JSON.stringify(content), FILE_DIGITS)
  } catch (error) {
    return digest(text || messageOf(error), FILE_DIGITS)
  }
}

/** Returns digests of the flags that decide what clients see and who gets in, by flag. */
export const flagDigests = (flags: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(flags).map(([flag, value]) => [flag, digest(JSON.stringify(value) ?? "", FLAG_DIGITS)]),
  )

/** Returns a mark that differs for different values of SVC_STATE_KEY and does not reveal them. */
export const stateKeyMark = async (stateKey: string | undefined): Promise<string> =>
  stateKey === undefined || stateKey === "" ? "none" : await passphraseMark(stateKey, "svc replicas")

// ---

const DRIFT_MS = 60_000
const CHECK_MS = 5000
const FILE_DIGITS = 16
const FLAG_DIGITS = 8

/** Returns the names of the files and settings in which two replicas differ. Other versions of svc may not announce all of them. */
function differences(one: ReplicaFacts, other: ReplicaFacts): readonly string[] {
  const names = Object.entries(one.settings ?? {}).flatMap(([name, value]) => {
    const theirs = other.settings?.[name]
    return theirs === undefined || theirs === value ? [] : [name]
  })
  return one.config === other.config ? names : ["mcp.json", ...names]
}
