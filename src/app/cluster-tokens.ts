/** The tokens of clients that the replicas of a running svc share. */
import { systemClock } from "../lib/clock.ts"
import type { Log } from "../lib/log.ts"
import { createSharedTokens, type SharedTokens } from "../store/shared-tokens.ts"
import type { Cluster } from "./cluster.ts"

/** Opens the tokens. `onchange` is called when the file of this replica must be read and merged again. */
export function openClusterTokens({ state, replicas }: Cluster, log: Log, onchange: () => void): SharedTokens {
  const { SVC_STATE_KEY } = process.env
  const tokens = createSharedTokens({
    state,
    stateKey: SVC_STATE_KEY === "" ? undefined : SVC_STATE_KEY,
    clock: systemClock,
    tell: () => replicas.send({ kind: "tokens" }),
    onchange,
    onunsealed: () =>
      log.warn(
        "who can write to Redis can create tokens of clients: set SVC_STATE_KEY to the same secret on all replicas",
      ),
    onforeign: () =>
      log.error(
        "tokens of another replica are refused: they are not sealed with this replica's SVC_STATE_KEY; give all replicas the same one",
      ),
  })
  const end = replicas.on("tokens", () => void tokens.sync())
  return {
    ...tokens,
    close() {
      end()
      tokens.close()
    },
  }
}
