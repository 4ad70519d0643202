/**
 * `svc auth login`, `status` and `logout`: sign-in to remote servers, through the running svc or in this process if none
 * runs.
 */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { finishChange } from "../commands/follow.ts"
import { openBrowser } from "../commands/open-browser.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { AuthStatus, OAuth, StartedAuthorization } from "../features/oauth/oauth.ts"
import { answerOAuthControl, openUpstreamOAuth } from "../features/oauth/upstream-oauth.ts"
import { isAddress, isLoopback, plainHost } from "../lib/address.ts"
import { formatDuration, systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { publicMessage, statusOfFault, UnavailableError } from "../lib/errors.ts"
import { unknownNameError } from "../lib/nearest.ts"
import { print, say, table } from "../lib/output.ts"
import { createRedactor } from "../lib/redact.ts"
import { configuredSecrets, type LocalConfiguration } from "../serve/local-configuration.ts"
import { CALLBACK_PATH, takeAnswer } from "../serve/oauth-callback.ts"
import { planDocument } from "../template/instance.ts"
import { isObject, type Params } from "../wire/message.ts"

const NAME = { type: "positional", required: true, description: "Name of the server", valueHint: "server" } as const

export const login: CommandDef = {
  meta: { name: "login", description: "Sign in to a remote server with a browser" },
  args: {
    name: NAME,
    ...CONTEXT_ARGS,
    browser: {
      type: "boolean",
      default: true,
      description: "Open the browser (default; --no-browser prints the URL)",
    },
    timeout: { type: "string", description: "How long to wait for the sign-in (default 5m)" },
  },
  async run({ args }) {
    const context = openContext(args)
    const name = String(args.name)
    const ask = await connect(context)
    const wanted = specsOf(context).find((spec) => spec.name === name)
    const configured =
      wanted !== undefined && wanted.launch.transport !== "stdio" ? wanted.launch.oauth?.redirectUrl : undefined
    // The browser returns to the running svc if it listens, unless the configuration names another address on this machine.
    const known = await ask("auth.callback", {})
    const callback = isObject(known) && typeof known.callback === "string" ? known.callback : undefined
    const needsListener = callback === undefined || (isLocal(configured) && configured !== callback)
    const listener = needsListener
      ? listen(configured, (query) => ask("auth.finish", { query: query.toString() }))
      : undefined
    try {
      const started = (await ask("auth.begin", {
        name,
        ...(listener === undefined ? {} : { redirectUrl: listener.redirectUrl }),
      })) as StartedAuthorization | Record<string, never>
      if (started?.url !== undefined) {
        const { url, state } = started
        if (args.browser !== false && (await openBrowser(url)))
          say(`waiting for the sign-in in the browser; if it does not open, go to\n${url}`)
        else {
          say(`open this URL in a browser:\n${url}`)
          say("if the browser runs on another machine, paste the URL of the page at which the sign-in ends:")
          void readPastedUrls(ask)
        }
        await waitForSignIn(ask, String(state), readOptions(args, process.env).duration("timeout", DEFAULT_TIMEOUT_MS))
      }
    } finally {
      listener?.close()
    }
    // The server connects anew: the next command must not say that it needs a sign-in.
    const signedIn = {
      kind: "command",
      result: { server: name, authorized: true },
      done: `signed in to ${name}`,
    } as const
    return finishChange(context, { json: args.json }, { ...signedIn, servers: [name] })
  },
}

export const status: CommandDef = {
  meta: { name: "status", description: "Show the sign-ins to remote servers and when they expire" },
  args: CONTEXT_ARGS,
  async run({ args }) {
    const ask = await connect(openContext(args))
    const answer = await ask("auth.status", {})
    const servers = (isObject(answer) && Array.isArray(answer.servers) ? answer.servers : []) as readonly AuthStatus[]
    print(args.json === true, servers, () =>
      servers.length === 0
        ? "no sign-ins"
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
  meta: { name: "logout", description: "Sign out of a remote server: revoke and delete its tokens" },
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
          ? `signed out of ${name}`
          : `signed out of ${name}, but its authorization server kept the tokens: ${note}`,
    )
    return 0
  },
}

// ---

const DEFAULT_TIMEOUT_MS = 5 * 60_000
const PROGRESS_MS = 15_000

type AskOAuth = (method: string, params: Params) => Promise<unknown>

const specsOf = (context: LocalConfiguration): readonly ServerSpec[] =>
  planDocument(context.document(), context.world()).plan.specs

/** Connects to the running svc; if none runs, this process answers the requests itself. */
async function connect(context: LocalConfiguration): Promise<AskOAuth> {
  if ((await context.ask("hello")) !== undefined) return context.ask
  const oauth: OAuth = openUpstreamOAuth(context.paths, {
    log: { debug() {}, info() {}, warn: (message) => say(`warning: ${message}`), error: say },
    callback: () => undefined,
    metadataUrl: undefined,
    onchange: () => undefined,
    mask: (text) => createRedactor([...configuredSecrets(context), ...oauth.secrets]).maskKnown(text),
  })
  const all = () => specsOf(context)
  const find = (name: string): ServerSpec => {
    const found = all().find((spec) => spec.name === name)
    if (found === undefined)
      throw unknownNameError(
        "server",
        name,
        all().map((spec) => spec.name),
      )
    return found
  }
  return (method, params) => answerOAuthControl({ oauth, find, all, restart: () => undefined }, method, params)
}

/** Listens on this machine for the browser's redirect, at a free port unless the configuration names one. */
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
    throw new UnavailableError(`cannot listen at ${configured} for the browser: the port is in use`, { cause })
  }
  return {
    redirectUrl:
      configured !== undefined && wanted !== undefined ? configured : `http://127.0.0.1:${server.port}${path}`,
    close: () => void server.stop(false),
  }
}

/** Reads pasted URLs to which a browser on another machine was redirected; the query of such a URL finishes the sign-in. */
async function readPastedUrls(ask: AskOAuth): Promise<void> {
  for await (const line of console) {
    const url = line.trim()
    if (!URL.canParse(url)) continue
    await ask("auth.finish", { query: new URL(url).search }).catch((error: unknown) => say(publicMessage(error)))
  }
}

/** Waits for the sign-in and reports progress. Throws if it failed, or if it takes longer than `timeout` milliseconds. */
async function waitForSignIn(ask: AskOAuth, state: string, timeout: number): Promise<void> {
  const started = systemClock.now()
  const until = started + timeout
  let reported = started
  for (;;) {
    const late = new Promise<undefined>((resolve) =>
      systemClock.after(Math.max(0, until - systemClock.now()), () => resolve(undefined)),
    )
    const answer = await Promise.race([ask("auth.wait", { state }), late])
    if (isObject(answer) && answer.done === true) return
    const now = systemClock.now()
    if (now >= until)
      throw new UnavailableError(`no sign-in within ${formatDuration(timeout)}; run \`svc auth login\` again`)
    if (now - reported >= PROGRESS_MS) {
      reported = now
      say(`still waiting for the sign-in (${Math.ceil((until - now) / 1000)} s left)`)
    }
  }
}

/** Whether a URL is plain http on this machine. */
function isLocal(url: string | undefined): boolean {
  if (url === undefined || !URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === "http:" && isLoopback(hostname)
}
