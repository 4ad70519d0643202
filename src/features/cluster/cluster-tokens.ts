/** The tokens of clients that the replicas of a running svc share. */
import { systemClock, withTimeout } from "../../lib/clock.ts"
import type { Log } from "../../lib/log.ts"
import { watchSuspension } from "../../lib/suspension.ts"
import type { ClusterTokens } from "../../serve/cluster.ts"
import { stateKeyIn } from "../../store/secret-store.ts"
import type { Replicas } from "./replicas.ts"
import type { SharedState } from "./shared-state.ts"
import { createSharedTokens } from "./shared-tokens.ts"

/** Opens the tokens. `onchange` is called when the file of this replica must be read and merged again. */
export function openClusterTokens(
  state: SharedState,
  replicas: Replicas,
  log: Log,
  onchange: () => void,
): ClusterTokens {
  const tokens = createSharedTokens({
    state,
    stateKey: stateKeyIn(process.env),
    clock: systemClock,
    tell: () => replicas.send({ kind: "tokens" }),
    onchange,
    onunsealed: () =>
      log.warn(
        "anyone who can write to Redis can create client tokens; set SVC_STATE_KEY to the same secret on all replicas",
      ),
    onforeign: () =>
      log.error(
        "tokens of another replica are refused: they are not sealed with this replica's SVC_STATE_KEY; give all replicas the same one",
      ),
  })
  const end = replicas.on("tokens", () => void tokens.sync())
  let catchingUp: Promise<void> | undefined
  const suspension = watchSuspension(systemClock, () => {
    // While the state is away, what was known holds.
    if (!state.connected) return
    const attempt = withTimeout(systemClock, CATCH_UP_MS, tokens.refresh()).then(() => {
      if (catchingUp === attempt) catchingUp = undefined
    })
    catchingUp = attempt
  })
  return {
    ...tokens,
    catchUp() {
      suspension.look()
      return catchingUp
    },
    close() {
      end()
      suspension.close()
      tokens.close()
    },
  }
}

// ---

/** Longer than it takes to notice that a connection is dead, and to open another. */
const CATCH_UP_MS = 5000
