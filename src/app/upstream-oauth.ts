/** Sign-in to remote servers, shared by a running svc and `svc auth`. */
import type { ServerSpec } from "../config/server-spec.ts"
import type { Cluster } from "../features/cluster/cluster.ts"
import { OAuth, type OAuthDeps } from "../features/oauth/oauth.ts"
import { systemClock } from "../lib/clock.ts"
import { RequestError } from "../lib/errors.ts"
import type { Log } from "../lib/log.ts"
import { randomText } from "../lib/random.ts"
import type { Paths } from "../store/paths.ts"
import { openSecretStore, type SecretStore, systemKeychain } from "../store/secret-store.ts"
import type { Params } from "../wire/message.ts"

/**
 * Opens OAuth with its store of tokens. `shared`: the store of a cluster. `replica`: the id of this replica. Without `paths`,
 * tokens are kept in memory.
 */
export function openUpstreamOAuth(
  paths: Paths | undefined,
  deps: Omit<OAuthDeps, "secrets" | "clock" | "fetch" | "newState">,
  { secrets: shared, replica = "" }: { readonly secrets?: SecretStore; readonly replica?: string } = {},
): OAuth {
  const secrets = shared ?? (paths === undefined ? inMemory() : openSecrets(paths))
  return new OAuth({
    ...deps,
    secrets,
    clock: systemClock,
    fetch: (url, init) => fetch(url, init),
    newState: () => replica + randomText(32),
  })
}

/** Opens the store of secrets that the replicas of a cluster share. */
export async function openSharedSecrets({ state, replicas }: Cluster, log: Log): Promise<SecretStore> {
  const { createSharedSecrets } = await import("../features/cluster/shared-secrets.ts")
  const { SVC_STATE_KEY } = process.env
  return createSharedSecrets({
    state,
    replica: replicas.id,
    stateKey: SVC_STATE_KEY === "" ? undefined : SVC_STATE_KEY,
    clock: systemClock,
    onunsealed: () =>
      log.warn(
        "anyone who can read Redis can read the tokens of remote servers; set SVC_STATE_KEY to the same secret on all replicas",
      ),
  })
}

/** Opens the store of secrets of a configuration directory, with the settings in the environment of this process. */
export function openSecrets({ directory }: Pick<Paths, "directory">): SecretStore {
  const { SVC_STATE_KEY, SVC_KEYCHAIN } = process.env
  return openSecretStore({
    directory,
    stateKey: SVC_STATE_KEY === "" ? undefined : SVC_STATE_KEY,
    keychain: SVC_KEYCHAIN === "off" ? undefined : systemKeychain,
    clock: systemClock,
  })
}

export type OAuthControlDeps = {
  readonly oauth: OAuth
  /** Throws a RequestError if no server has the name. */
  find(name: string): ServerSpec
  all(): readonly ServerSpec[]
  restart(name: string): void
}

/** Answers the control methods of `svc auth`. */
export async function answerOAuthControl(deps: OAuthControlDeps, method: string, params: Params): Promise<unknown> {
  const { oauth } = deps
  const spec = () => deps.find(String(params.name))
  switch (method) {
    case "auth.callback":
      return { callback: oauth.callback() }
    case "auth.begin":
      return (await oauth.begin(spec(), typeof params.redirectUrl === "string" ? params.redirectUrl : undefined)) ?? {}
    case "auth.finish":
      return { name: await oauth.finish(new URLSearchParams(String(params.query))) }
    case "auth.wait": {
      const late = new Promise<false>((resolve) => systemClock.after(WAIT_MS, () => resolve(false)))
      return { done: await Promise.race([oauth.finished(String(params.state)).then(() => true), late]) }
    }
    case "auth.status":
      return { servers: await oauth.status(deps.all()) }
    case "auth.logout": {
      const note = await oauth.logout(spec())
      deps.restart(String(params.name))
      return note === undefined ? {} : { note }
    }
    default:
      throw new RequestError("unknown_method", `this svc does not know ${method}`)
  }
}

// ---

/** Shorter than the timeout of a control request. */
const WAIT_MS = 20_000

function inMemory(): SecretStore {
  const entries: Record<string, unknown> = {}
  return {
    read: async () => entries,
    put: async (name, entry) => {
      entries[name] = entry
    },
    exclusive: (_name, task) => task(),
  }
}
