/** `svc auth login`, `status` and `logout`: svc's authorization at remote servers, with a running svc or without one. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, type CommandContext, openContext } from "../app/command-context.ts"
import { print, say, table } from "../app/output.ts"
import { answerOAuthControl, openUpstreamOAuth } from "../app/upstream-oauth.ts"
import { plan } from "../config/plan.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import { isAddress, isLoopback, plainHost } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { publicMessage, RequestError, statusOfFault, UnavailableError } from "../lib/errors.ts"
import type { AuthStatus, OAuth, StartedAuthorization } from "../oauth/oauth.ts"
import { CALLBACK_PATH, takeAnswer } from "../serve/oauth-callback.ts"
import { isObject, type Params } from "../wire/message.ts"

const NAME = { type: "positional", required: true, description: "The server's name" } as const

export const login: CommandDef = {
  meta: { name: "login", description: "Authorize svc at a remote server, in the browser" },
  args: {
    name: NAME,
    ...CONTEXT_ARGS,
    browser: {
      type: "boolean",
      default: true,
      description: "Open the browser (default; --no-browser prints the address)",
    },
    timeout: { type: "string", description: "How long to wait for the browser (default 5m)" },
  },
  async run({ args }) {
    const context = openContext(args)
    const name = String(args.name)
    const ask = await connect(context)
    const wanted = specsOf(context).find((spec) => spec.name === name)
    const configured =
      wanted !== undefined && wanted.launch.transport !== "stdio" ? wanted.launch.oauth?.redirectUrl : undefined
    // The browser comes back to a running svc that listens, unless it was told of another place on this machine.
    const known = await ask("auth.callback", {})
    const own = isObject(known) && typeof known.callback === "string" ? known.callback : undefined
    const listens = own === undefined || (isLocal(configured) && configured !== own)
    const listener = listens
      ? listen(configured, (query) => ask("auth.finish", { query: query.toString() }))
      : undefined
    try {
      const begun = (await ask("auth.begin", {
        name,
        ...(listener === undefined ? {} : { redirectUrl: listener.redirectUrl }),
      })) as StartedAuthorization | Record<string, never>
      if (begun?.url !== undefined) {
        const { url, state } = begun
        if (args.browser !== false && (await openBrowser(url)))
          say(`waiting for the browser; if it does not open, go to\n${url}`)
        else {
          say(`open this address in a browser:\n${url}`)
          say("if the browser is on another machine, paste the address here at which it ends")
          void takePasted(ask)
        }
        await wait(ask, String(state), readOptions(args, process.env).duration("timeout", DEFAULT_TIMEOUT_MS))
      }
    } finally {
      listener?.close()
    }
    print(args.json === true, { server: name, authorized: true }, () => `${name} is authorized`)
    return 0
  },
}

export const status: CommandDef = {
  meta: { name: "status", description: "Show at which servers svc is authorized, and for how long" },
  args: CONTEXT_ARGS,
  async run({ args }) {
    const ask = await connect(openContext(args))
    const answer = await ask("auth.status", {})
    const servers = (isObject(answer) && Array.isArray(answer.servers) ? answer.servers : []) as readonly AuthStatus[]
    print(args.json === true, servers, () =>
      servers.length === 0
        ? "no server has wanted authorization"
        : table(
            ["server", "state", "scopes", "expires", "renews", "issuer"],
            servers.map(({ server, state, scopes, expires, renews, issuer }) => [
              server,
              state,
              scopes.join(" "),
              expires ?? "",
              renews ? "yes" : "no",
              issuer ?? "",
            ]),
          ),
    )
    return 0
  },
}

export const logout: CommandDef = {
  meta: { name: "logout", description: "Revoke svc's tokens of a server and delete them" },
  args: { name: NAME, ...CONTEXT_ARGS },
  async run({ args }) {
    const name = String(args.name)
    const ask = await connect(openContext(args))
    const answer = await ask("auth.logout", { name })
    const note = isObject(answer) && typeof answer.note === "string" ? answer.note : undefined
    print(
      args.json === true,
      { server: name, revoked: note === undefined, ...(note === undefined ? {} : { note }) },
      () =>
        note === undefined
          ? `logged out of ${name}`
          : `logged out of ${name}, but not at its authorization server: ${note}`,
    )
    return 0
  },
}

// ---

const DEFAULT_TIMEOUT_MS = 5 * 60_000
const PROGRESS_MS = 15_000
const OPENED_MS = 2000

type AskOAuth = (method: string, params: Params) => Promise<unknown>

const specsOf = (context: CommandContext): readonly ServerSpec[] => plan(context.document(), context.world()).specs

/** The running svc, or this process in its place. */
async function connect(context: CommandContext): Promise<AskOAuth> {
  if ((await context.ask("hello")) !== undefined) return context.ask
  const oauth: OAuth = openUpstreamOAuth(context.paths, {
    log: { debug() {}, info() {}, warn: (message) => say(`warning: ${message}`), error: say },
    callback: () => undefined,
    metadataUrl: undefined,
    onchange: () => undefined,
  })
  const all = () => specsOf(context)
  const find = (name: string): ServerSpec => {
    const found = all().find((spec) => spec.name === name)
    if (found === undefined) throw new RequestError("not_found", `No server is named ${name}`)
    return found
  }
  return (method, params) => answerOAuthControl({ oauth, find, all, restart: () => undefined }, method, params)
}

/** Waits on this machine for the browser: one answer, at a free port unless the configuration says which. */
function listen(
  configured: string | undefined,
  finish: (answer: URLSearchParams) => Promise<unknown>,
): { readonly redirectUrl: string; close(): void } {
  const wanted = configured !== undefined && isLocal(configured) ? new URL(configured) : undefined
  const path = wanted?.pathname ?? CALLBACK_PATH
  let server: Bun.Server<undefined>
  try {
    server = Bun.serve({
      hostname: wanted !== undefined && isAddress(wanted.hostname) ? plainHost(wanted.hostname) : "127.0.0.1",
      port: wanted === undefined ? 0 : Number(wanted.port === "" ? 80 : wanted.port),
      fetch(request) {
        const url = new URL(request.url)
        if (request.method !== "GET" || url.pathname !== path)
          return new Response(null, { status: statusOfFault("not_found") })
        return takeAnswer(url.searchParams, async (answer) => {
          const finished = await finish(answer)
          return isObject(finished) ? String(finished.name) : ""
        })
      },
    })
  } catch (cause) {
    throw new UnavailableError(`cannot wait for the browser at ${configured}: the port is in use`, { cause })
  }
  return {
    redirectUrl:
      configured !== undefined && wanted !== undefined ? configured : `http://127.0.0.1:${server.port}${path}`,
    close: () => void server.stop(false),
  }
}

/** Takes the address at which a browser on another machine has ended: what it says is all that svc needs. */
async function takePasted(ask: AskOAuth): Promise<void> {
  for await (const line of console) {
    const url = line.trim()
    if (!URL.canParse(url)) continue
    await ask("auth.finish", { query: new URL(url).search }).catch((error: unknown) => say(publicMessage(error)))
  }
}

/** Waits for the browser, and says so. Throws where the authorization failed or nobody came. */
async function wait(ask: AskOAuth, state: string, timeout: number): Promise<void> {
  const started = systemClock.now()
  const until = started + timeout
  let said = started
  for (;;) {
    const late = new Promise<undefined>((resolve) =>
      systemClock.after(Math.max(0, until - systemClock.now()), () => resolve(undefined)),
    )
    const answer = await Promise.race([ask("auth.wait", { state }), late])
    if (isObject(answer) && answer.done === true) return
    const now = systemClock.now()
    if (now >= until) throw new UnavailableError("nobody came back from the browser in time; run it again")
    if (now - said >= PROGRESS_MS) {
      said = now
      say(`still waiting for the browser (${Math.ceil((until - now) / 1000)} s left)`)
    }
  }
}

/** False where there is none to open. */
async function openBrowser(url: string): Promise<boolean> {
  if (!/^https?:\/\//.test(url)) return false
  const { platform, env } = process
  if (
    platform === "linux" &&
    env.DISPLAY === undefined &&
    env.WAYLAND_DISPLAY === undefined &&
    env.BROWSER === undefined
  )
    return false
  const command =
    platform === "darwin" ? ["open"] : platform === "win32" ? ["rundll32", "url.dll,FileProtocolHandler"] : ["xdg-open"]
  try {
    const child = Bun.spawn({ cmd: [...command, url], stdin: "ignore", stdout: "ignore", stderr: "ignore" })
    // Some stay for as long as the browser does.
    const stays = new Promise<number>((resolve) => systemClock.after(OPENED_MS, () => resolve(0)))
    return (await Promise.race([child.exited, stays])) === 0
  } catch {
    return false
  }
}

function isLocal(url: string | undefined): boolean {
  if (url === undefined || !URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === "http:" && isLoopback(hostname)
}
