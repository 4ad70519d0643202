/** Simulates a process of svc that signs in: an OAuth object that shares only the store on disk with others. */
import type { Credentials } from "../../../src/backend/http.ts"
import { fetchWithCredentials } from "../../../src/backend/http.ts"
import type { OAuthSettings, RemoteLaunch, ServerSpec } from "../../../src/config/server-spec.ts"
import { OAuth } from "../../../src/features/oauth/oauth.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { silentLog } from "../../../src/lib/log.ts"
import { createRedactor } from "../../../src/lib/redact.ts"
import { openSecretStore } from "../../../src/store/secret-store.ts"
import { createRequestIds } from "../../../src/wire/frame.ts"
import { browse } from "../../fixtures/authority.ts"

const CALLBACK = "http://127.0.0.1:1/oauth/callback"
/** A configured secret. */
export const SECRET = "a-configured-secret"

export type Process = {
  readonly oauth: OAuth
  readonly credentials: Credentials
  readonly spec: ServerSpec
  /** Moves the clock. */
  pass(ms: number): void
  /** Sends a request with the credentials, as a transport does. */
  request(method?: string): Promise<Response>
}

export type ProcessOptions = {
  readonly directory: string
  readonly url: string
  readonly settings?: OAuthSettings
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** The redirect address that leads to this process; undefined for an svc on stdio. */
  readonly callback?: string | undefined
}

export function simulateProcess(options: ProcessOptions): Process {
  const { directory, url, settings, fetch: talk = (address, init) => fetch(address, init) } = options
  const callback = "callback" in options ? options.callback : CALLBACK
  let later = 0
  const clock = { ...systemClock, now: () => Date.now() + later }
  const oauth = new OAuth({
    clock,
    log: silentLog,
    secrets: openSecretStore({ directory, stateKey: undefined, keychain: undefined, clock: systemClock }),
    fetch: talk,
    callback: () => callback,
    metadataUrl: undefined,
    newState: () => crypto.randomUUID(),
    onchange() {},
    mask: (text) => createRedactor([SECRET]).maskKnown(text),
  })
  const launch: RemoteLaunch = { transport: "http", url, headers: {}, oauth: settings, mode: "auto" }
  const spec = { id: "web", name: "web", slug: "web", launch } as ServerSpec
  const credentials = oauth.credentials(spec, launch)
  const deps = {
    fetch: talk,
    clock,
    credentials,
    ids: createRequestIds("t"),
    limit: 1000,
    mask: (text: string) => text,
  }
  return {
    oauth,
    spec,
    credentials,
    pass(ms) {
      later += ms
    },
    request: (method = "GET") => fetchWithCredentials(url, { method, headers: {} }, deps) as Promise<Response>,
  }
}

/** Authorizes in a simulated browser. Returns the response that came back to the redirect address. */
export const answerTo = async (url: string): Promise<URLSearchParams> =>
  new URL((await browse(url, CALLBACK)).url).searchParams

export async function logIn({ oauth, spec }: Process): Promise<void> {
  const begun = await oauth.begin(spec, undefined)
  await oauth.finish(await answerTo(begun?.url ?? ""))
}
