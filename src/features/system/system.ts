/** Opens what the system tells svc, and svc the system; loads each part when there is one. */
import { systemClock } from "../../lib/clock.ts"
import type { System } from "../../serve/system.ts"
import { takePredecessor } from "./predecessor.ts"
import { takeSdEnvironment } from "./sd-environment.ts"

/** Takes the variables of the system out of the environment, which servers inherit. */
export function takeSystem(env: Record<string, string | undefined>, pid: number): System {
  const settings = takeSdEnvironment(env, pid)
  const predecessor = takePredecessor(env)
  return {
    predecessor,
    async openNotify(onfail) {
      if (settings === undefined) return undefined
      const { openSdNotify } = await import("./sd-notify.ts")
      return openSdNotify(settings, systemClock, onfail)
    },
    async takeOver(paths, shutdownGrace) {
      if (predecessor === undefined) return
      const { takeOver } = await import("./handover.ts")
      await takeOver(paths, predecessor, systemClock, shutdownGrace)
    },
    async openHandover(deps) {
      const { RunningHandover } = await import("./handover.ts")
      return new RunningHandover(deps, systemClock)
    },
  }
}
