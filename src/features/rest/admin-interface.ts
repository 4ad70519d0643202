/** REST, the admin page and their login. The code that serves them is imported at the first request, not at the start. */

import type { Runtime } from "../../app/runtime.ts"
import type { ServeOptions } from "../../app/serve-options.ts"
import type { ServerSpec } from "../../config/server-spec.ts"
import { systemClock } from "../../lib/clock.ts"
import { UnavailableError } from "../../lib/errors.ts"
import { lazy } from "../../lib/lazy.ts"
import { randomText } from "../../lib/random.ts"
import { clientAddress } from "../../serve/address-rate-limit.ts"
import type { OpenStream } from "../../serve/http-exchange.ts"
import type { Inbound } from "../../serve/inbound.ts"
import { clientMetadataUrl } from "../../serve/oauth-callback.ts"
import type { ApiRequest } from "../../serve/server.ts"
import type { Paths } from "../../store/paths.ts"
import type { InternalTools } from "../tools/internal-tools.ts"
import { AdminLogin } from "./admin-login.ts"

/** What REST needs of a svc whose configuration has been read. */
type AdminConnection = {
  readonly paths: Paths
  /** The address of MCP for clients; undefined on a Unix socket. */
  readonly endpoint: string | undefined
  tools(): Promise<InternalTools>
  /** Returns a running server. Throws a typed error with the reason if it does not run. */
  find(name: string): ServerSpec
  /** Applies the current content of the files. */
  follow(): Promise<unknown>
}

export type AdminInterface = {
  serve(request: ApiRequest): Promise<Response>
  connect(connection: AdminConnection): void
  /**
   * Returns the client token that belongs to a browser's login; undefined if the request has no login or is not for REST.
   * Throws a RequestError as AdminLogin.admit does.
   */
  tokenOf(inbound: Inbound): string | undefined
  /**
   * Returns the address of the page: a link that logs in once or, with `--auth`, the address alone; with `token`, a token for
   * REST instead. Throws an UnavailableError if no browser can reach svc, or if `--auth` has tokens of its own.
   */
  invite(endpoint: string | undefined, token: boolean): { readonly url: string; readonly token?: string }
}

export function createAdminInterface(runtime: Runtime, options: ServeOptions): AdminInterface {
  const { agent, audit, cluster, mcp, oauth, redactor, serverLogs, sessions, streams } = runtime
  const { auth } = options
  const login = new AdminLogin(systemClock, newSecret, options.externalUrl)
  const salt = newSecret()
  const restStreams = new Set<OpenStream>()
  let connection: AdminConnection | undefined
  let serving: Promise<(request: ApiRequest) => Promise<Response>> | undefined
  const openIssuerLogin = lazy(() =>
    import("./issuer-login.ts").then(({ createIssuerLogin }) =>
      createIssuerLogin({
        issuer: options.authIssuer ?? "",
        audience: options.authAudience,
        clock: systemClock,
        fetch: (url, init) => fetch(url, init),
        newSecret,
        base: () => (connection?.endpoint ?? "").replace(/\/mcp$/, ""),
        metadataUrl: clientMetadataUrl(options.externalUrl),
      }),
    ),
  )
  const load = async () => {
    const [{ createRest }, { editPresets }] = await Promise.all([
      import("./api.ts"),
      import("../../store/documents.ts"),
    ])
    const ports = async () => {
      if (connection === undefined) return undefined
      const { paths, endpoint, tools, find, follow } = connection
      const { editor, run } = await tools()
      return {
        agent,
        clock: systemClock,
        gateway: mcp.gateway,
        editor,
        file: paths.file,
        serverLogs,
        streams,
        restStreams,
        salt,
        login,
        auth,
        endpoint,
        scopeOf: runtime.scopeOf,
        sessions: () => sessions.all(),
        facts: runtime.facts,
        mask: (text: string) => redactor().maskCredentials(text),
        runTool: (tool: string, args: object, agreed: string | undefined, signal: AbortSignal) =>
          run({ tool, arguments: args, agreed }, signal),
        authorize: (name: string) => oauth.begin(find(name), undefined),
        audit,
        follow,
        editPresets: (change: (text: string) => string) => editPresets(paths, change, systemClock),
        watchCalls: runtime.watchCalls,
        onbug: mcp.onbug,
      }
    }
    return createRest({
      clock: systemClock,
      login,
      auth,
      issuerLogin: options.authIssuer === undefined ? undefined : openIssuerLogin,
      audit,
      maxBody: options.maxBody,
      countLogins: cluster && ((key, ms) => cluster.count(`login:${key}`, ms)),
      addressOf: ({ address, request }) =>
        clientAddress(address(), request.headers.get("x-forwarded-for"), options.trustProxy),
      ports,
      watchCalls: runtime.watchCalls,
      onbug: mcp.onbug,
    })
  }
  return {
    async serve(request) {
      if (PAGE_PATH.test(request.inbound.path)) {
        const { serveAdminPage } = await import("./admin-page.ts")
        return serveAdminPage(request.inbound)
      }
      serving ??= load()
      return (await serving)(request)
    },
    tokenOf({ path, request }) {
      const session = path.startsWith("/api/v1/") ? login.admit(request) : undefined
      return session?.kind === "browser" ? session.token : undefined
    },
    connect(given) {
      connection = given
    },
    invite(endpoint, token) {
      if (endpoint === undefined)
        throw new UnavailableError("svc listens on a Unix socket, which browsers cannot reach; start it with --port")
      const url = endpoint.replace(/\/mcp$/, "/admin")
      if (auth) {
        if (!token) return { url }
        throw new UnavailableError("with --auth, REST requires a token of `svc auth token create`")
      }
      return token ? { url, token: login.createToken() } : { url: `${url}/login?code=${login.createLink()}` }
    },
  }
}

// ---

/** Matches the page, but not the login link of `svc admin`, which REST answers. */
const PAGE_PATH = /^\/admin(?:\/(?!login$)|$)/

/** Returns 256 random bits. */
const newSecret = (): string => randomText(32)
