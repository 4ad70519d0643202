/** What an svc that is to replace a running one knows of it. */
import type { Predecessor } from "../../serve/system.ts"

export const PREDECESSOR_VARIABLE = "SVC_PREDECESSOR"

/** Removes the predecessor from the environment, which servers inherit. Returns undefined if there is none. */
export function takePredecessor(env: Record<string, string | undefined>): Predecessor | undefined {
  const [, pid, port] = /^(\d{1,10}):(\d{1,5})$/.exec(env[PREDECESSOR_VARIABLE] ?? "") ?? []
  delete env[PREDECESSOR_VARIABLE]
  return pid === undefined ? undefined : { pid: Number(pid), port: Number(port) }
}
