/** Determines for `svc doctor` whether svc is signed in to a remote server, or could sign in. */

import type { SignIn } from "../features/doctor/doctor-remotes.ts"
import { openUpstreamOAuth } from "../features/oauth/upstream-oauth.ts"
import { silentLog } from "../lib/log.ts"

export const remoteSignIn: SignIn = {
  async isSignedIn(spec, { context }) {
    const oauth = openUpstreamOAuth(context.paths, {
      log: silentLog,
      callback: () => undefined,
      metadataUrl: undefined,
      onchange: () => undefined,
      mask: (text) => text,
    })
    const [status] = await oauth.status([spec])
    return status?.state === "authorized" || status?.renews === true
  },
  async offersSignIn(url, refusal, { fetch }) {
    const { challengeOf, discover } = await import("../features/oauth/oauth-client.ts")
    const timed = (target: string | URL, init?: RequestInit) =>
      fetch(String(target), { ...init, signal: AbortSignal.timeout(DISCOVERY_MS) })
    try {
      const { metadata, resource } = await discover(url, challengeOf(refusal).metadataUrl, timed)
      return metadata !== undefined || resource !== undefined
    } catch {
      return false
    }
  },
}

// ---

const DISCOVERY_MS = 4000
