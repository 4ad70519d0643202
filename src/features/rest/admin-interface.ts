/** REST, the admin page and their login. The code that serves them is imported at the first request, not at the start. */

import type { ServerSpec } from "../../config/server-spec.ts"
import { systemClock } from "../../lib/clock.ts"
import { UnavailableError } from "../../lib/errors.ts"
import { lazy } from "../../lib/lazy.ts"
import { randomText } from "../../lib/random.ts"
import { type CountShared, clientAddress, type TrustProxy } from "../../serve/address-rate-limit.ts"
import type { OpenStream } from "../../serve/http-exchange.ts"
import type { Inbound } from "../../serve/inbound.ts"
import type { ApiRequest } from "../../serve/server.ts"
import type { Session } from "../../session/session.ts"
import type { Paths } from "../../store/paths.ts"
import type { InternalTools } from "../tools/internal-tools.ts"
import { AdminLogin, LOGIN_PATH } from "./admin-login.ts"
import { CallRecords, type ShownCall, shownCall } from "./call-records.ts"
import type { RestPorts } from "./endpoint.ts"
import type { BeginLogin } from "./issuer-login.ts"
import { openLoginStore } from "./login-store.ts"
import type { CountTokens, RunCommand } from "./own-commands.ts"

/** The parts of a running svc that REST uses. */
type AdminDeps = Pick<
  RestPorts,
  | "agent"
  | "audit"
  | "facts"
  | "gateway"
  | "mask"
  | "onbug"
  | "readPasted"
  | "scopeOf"
  | "serverLogs"
  | "streams"
  | "toolFinder"
  | "usage"
  | "watchCalls"
> & {
  readonly sessions: { all(): Iterable<Session> }
  /** Starts the sign-in to a remote server. */
  authorize?(spec: ServerSpec): ReturnType<RestPorts["authorize"]>
  /** Counts the logins of an address on all replicas; undefined for a single svc. */
  readonly countLogins: CountShared | undefined
  /** The paths of the configuration that keeps the logins of browsers; undefined if they end with svc. */
  readonly paths?: Paths | undefined
  /** Returns the function that logs people in at the issuer. */
  issuerClient?(): Promise<BeginLogin>
}

/** The options of `svc serve` that REST follows. */
type AdminOptions = {
  readonly activity: "off" | "names" | "content"
  readonly auth: boolean
  readonly demo: boolean
  readonly authIssuer: string | undefined
  readonly authAudience: string | undefined
  readonly externalUrl: string | undefined
  readonly trustProxy: TrustProxy
  readonly maxBody: number
}

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

export class AdminInterface {
  private readonly login: AdminLogin
  private readonly salt = newSecret()
  private readonly streams = new Set<OpenStream>()
  private readonly records: CallRecords
  private readonly questions = lazy(async () => new (await import("./questions.ts")).Questions(newSecret))
  private connection: AdminConnection | undefined
  private runCommand: RunCommand | undefined
  private countTokens: CountTokens | undefined
  private readonly rest = lazy(() => this.loadRest())
  private readonly issuerLogin = lazy(() => this.loadIssuerLogin())

  constructor(
    private readonly deps: AdminDeps,
    private readonly options: AdminOptions,
  ) {
    const { paths } = deps
    this.records = new CallRecords(systemClock, options.activity === "content")
    if (options.activity !== "off") deps.watchCalls((call) => this.records.add(call))
    // With --auth, a login belongs to a token, which svc does not store.
    const store = paths === undefined || options.auth ? undefined : openLoginStore(paths)
    this.login = new AdminLogin(systemClock, newSecret, options.externalUrl, store)
  }

  connect(connection: AdminConnection): void {
    this.connection = connection
  }

  readonly serve = async (request: ApiRequest): Promise<Response> => {
    if (PAGE_PATH.test(request.inbound.path)) {
      const { serveAdminPage } = await import("./admin-page.ts")
      return serveAdminPage(request.inbound)
    }
    return (await this.rest())(request)
  }

  /** Returns the addresses to which the issuer of `--auth-issuer` redirects browsers. `base` is the public address of svc. */
  redirectUrls(base: string): readonly string[] {
    return this.options.authIssuer === undefined ? [] : [`${base}${LOGIN_PATH}`]
  }

  /**
   * Returns the client token that belongs to a browser's login; undefined if the request has no login or is not for REST.
   * Throws a RequestError as AdminLogin.admit does.
   */
  readonly tokenOf = ({ path, request }: Inbound): string | undefined => {
    const session = path.startsWith("/api/v1/") ? this.login.admit(request) : undefined
    return session?.kind === "browser" ? session.token : undefined
  }

  /**
   * Returns the address of the page: a link that logs in once or, with `--auth`, the address alone; with `token`, a token for
   * REST instead. Throws an UnavailableError if no browser can reach svc, or if `--auth` has tokens of its own.
   */
  invite(endpoint: string | undefined, token: boolean): { readonly url: string; readonly token?: string } {
    if (endpoint === undefined)
      throw new UnavailableError("svc listens on a Unix socket, which browsers cannot reach; start it with --port")
    const url = endpoint.replace(/\/mcp$/, "/admin")
    if (this.options.auth) {
      if (!token) return { url }
      throw new UnavailableError("with --auth, REST requires a token of `svc auth token create`")
    }
    return token ? { url, token: this.login.createToken() } : { url: `${url}/login?code=${this.login.createLink()}` }
  }

  /** Returns the next calls, as `CallRecords.next` does. Throws an UnavailableError if svc keeps none. */
  calls(after: number): readonly ShownCall[] {
    if (this.options.activity === "off")
      throw new UnavailableError("this svc keeps no calls: it was started with --activity off")
    return this.records.next(after).map((record) => shownCall(record, this.deps.mask))
  }

  // ---

  private async loadRest(): Promise<(request: ApiRequest) => Promise<Response>> {
    const { deps, options, login } = this
    const { auth, authIssuer, maxBody, trustProxy } = options
    const { createRest } = await import("./api.ts")
    this.records.keepContent()
    return createRest({
      ...deps,
      clock: systemClock,
      login,
      auth,
      issuerLogin: authIssuer === undefined ? undefined : this.issuerLogin,
      maxBody,
      addressOf: ({ address, request }) => clientAddress(address(), request.headers.get("x-forwarded-for"), trustProxy),
      ports: () => this.ports(),
    })
  }

  private async loadIssuerLogin() {
    const { authIssuer = "", authAudience: audience } = this.options
    const [{ createIssuerLogin }, authorize] = await Promise.all([
      import("./issuer-login.ts"),
      (this.deps.issuerClient ?? refuseSignIn)(),
    ])
    const base = () => (this.connection?.endpoint ?? "").replace(/\/mcp$/, "")
    return createIssuerLogin({ issuer: authIssuer, audience, clock: systemClock, authorize, newSecret, base })
  }

  private async ports(): Promise<Omit<RestPorts, "history"> | undefined> {
    if (this.connection === undefined) return undefined
    const { deps, options, login, salt } = this
    const { paths, endpoint, tools, find, follow } = this.connection
    const [{ editor, run }, { editPresets }, { createCommands, createTokenCounter }] = await Promise.all([
      tools(),
      import("../../store/documents.ts"),
      import("./own-commands.ts"),
    ])
    this.runCommand ??= createCommands(paths, options.demo)
    this.countTokens ??= createTokenCounter(this.runCommand, () => deps.agent.catalog.generation)
    return {
      ...deps,
      clock: systemClock,
      editor,
      file: paths.file,
      isDemo: options.demo,
      activity: options.activity,
      restStreams: this.streams,
      salt,
      login,
      auth: options.auth,
      endpoint,
      sessions: () => deps.sessions.all(),
      runTool: (tool, args, agreed, signal) => run({ tool, arguments: args, agreed }, signal),
      authorize: async (name) => (deps.authorize ?? refuseSignIn)(find(name)),
      follow,
      questions: await this.questions(),
      records: this.records,
      runCommand: this.runCommand,
      countTokens: this.countTokens,
      editPresets: (change) => editPresets(paths, change, systemClock),
    }
  }
}

// ---

/** Matches the page, but not the login link of `svc admin`, which REST answers. */
const PAGE_PATH = /^\/admin(?:\/(?!login$)|$)/

/** Returns 256 random bits. */
const newSecret = (): string => randomText(32)

const refuseSignIn = async (): Promise<never> => {
  throw new UnavailableError("this svc was built without sign-in to remote servers")
}
