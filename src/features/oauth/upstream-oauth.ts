/** Sign-in to remote servers, shared by a running svc and `svc auth`. */
import type { ServerSpec } from "../../config/server-spec.ts"
import { systemClock } from "../../lib/clock.ts"
import { RequestError } from "../../lib/errors.ts"
import { randomText } from "../../lib/random.ts"
import type { Paths } from "../../store/paths.ts"
import { openSecrets, type SecretStore } from "../../store/secret-store.ts"
import type { Params } from "../../wire/message.ts"
import { OAuth, type OAuthDeps } from "./oauth.ts"

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
