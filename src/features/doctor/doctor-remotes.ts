/** Checks remote servers that no running svc is connected to: whether they can be reached, are MCP servers and admit svc. */

import { headerCommand } from "../../backend/client-transport.ts"
import {
  ACCEPT_JSON_OR_SSE,
  fetchInOrigin,
  isEventStream,
  mediaType,
  statusHint,
  unexpectedType,
} from "../../backend/http.ts"
import { HttpStatusError, ownMeta } from "../../backend/negotiate.ts"
import type { RemoteLaunch, ServerSpec } from "../../config/server-spec.ts"
import { isPrivate } from "../../lib/address.ts"
import { messageOf } from "../../lib/errors.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { version } from "../../lib/version.ts"
import type { Finding, Installation } from "../../serve/doctor-check.ts"
import { MODERN_VERSION } from "../../wire/era.ts"

type Remote = ServerSpec & { readonly launch: RemoteLaunch }

/** What svc knows about sign-in to remote servers. */
export type SignIn = {
  /** Whether svc is signed in to a server. */
  isSignedIn(spec: ServerSpec, installation: Installation): Promise<boolean>
  /** Whether a server that refused a request names an authorization server at which svc can sign in. */
  offersSignIn(url: string, refusal: Response, installation: Installation): Promise<boolean>
}

/** Checks the remote servers. Without `signIn`, svc cannot sign in to any. */
export async function checkRemotes(
  installation: Installation,
  signIn: SignIn | undefined,
): Promise<readonly Finding[]> {
  const { specs, live } = installation
  const connected = new Set(live?.servers.flatMap(({ id, status }) => (status === "connected" ? [id] : [])))
  // The check of the running servers reports these.
  const known = new Set(live?.servers.map(({ id }) => id))
  const remotes = specs.filter((spec): spec is Remote => spec.launch.transport !== "stdio" && !connected.has(spec.id))
  const probed = await Promise.all(remotes.map((spec) => probe(spec, installation, signIn)))
  const findings = remotes.flatMap(({ id }, at) => (known.has(id) ? [] : (probed[at]?.findings ?? [])))
  const skew = probed.map(({ skewMs }) => skewMs).find((ms) => ms !== undefined && Math.abs(ms) > MAX_SKEW_MS)
  return skew === undefined ? findings : [...findings, skewFinding(skew)]
}

/** Returns the instruction for setting or correcting credentials in the headers of a server. */
export const headerFix = (name: string): string => `put TOKEN=… into .env, then run \`${headerCommand(name)}\``

/** Returns the instruction for a server that cannot be reached. */
export const urlFix = (name: string): string => `check that it runs, and its url: \`svc mcp edit ${name} --url URL\``

// ---

const PROBE_MS = 8000
/** Servers refuse tokens if the clocks differ by a few minutes. */
const MAX_SKEW_MS = 2 * 60_000

type Probe = { readonly findings: readonly Finding[]; readonly skewMs?: number | undefined }

async function probe(spec: Remote, installation: Installation, signIn: SignIn | undefined): Promise<Probe> {
  const { name, launch } = spec
  const failed = (what: string, fix: string): Finding => ({
    check: "remotes",
    severity: "error",
    subject: name,
    what: `${name}: ${what}`,
    why: "svc cannot offer its tools",
    fix,
  })
  let response: Response
  try {
    response = await request(launch, installation)
  } catch (cause) {
    return { findings: [failed(messageOf(cause), urlFix(name))] }
  }
  await response.body?.cancel()
  const date = Date.parse(response.headers.get("date") ?? "")
  // The clock of a server in a private network may be wrong itself.
  const isReference = !Number.isNaN(date) && !isPrivate(new URL(launch.url).hostname)
  const skewMs = isReference ? installation.clock.now() - date : undefined
  if (response.status === 401) {
    if (Object.keys(launch.headers).some((header) => isSecretName(header)))
      return { findings: [failed("refused the credentials in headers (401)", headerFix(name))], skewMs }
    if ((await signIn?.isSignedIn(spec, installation)) === true) return { findings: [], skewMs }
    const offered =
      launch.oauth !== undefined || (await signIn?.offersSignIn(launch.url, response, installation)) === true
    const finding = offered
      ? failed("sign-in needed", `svc auth login ${name}`)
      : failed("requires a token in a header (401), and offers no sign-in", headerFix(name))
    return { findings: [finding], skewMs }
  }
  if (response.ok && mediaType(response) !== "application/json" && !isEventStream(response))
    return { findings: [failed(unexpectedType(response).message, 'most addresses end in "mcp" or "sse"')], skewMs }
  const error = new HttpStatusError(response.status, `answered ${response.status}`)
  // Servers of the other era answer 400.
  const isWrong = response.status >= 500 || [403, 404, 405, 410].includes(response.status)
  if (!isWrong) return { findings: [], skewMs }
  const hint = statusHint(error, launch.headers).replace(/^; /, "")
  return { findings: [failed(error.message, hint === "" ? "look at the server's own log" : hint)], skewMs }
}

/** Sends `server/discover`, and opens an event stream if the address may use the older transport. */
async function request({ url, headers, transport }: RemoteLaunch, { fetch }: Installation): Promise<Response> {
  const signal = AbortSignal.timeout(PROBE_MS)
  const send = (init: RequestInit, own: Readonly<Record<string, string>>) =>
    fetchInOrigin(url, { ...init, headers: { ...headers, ...own }, signal }, { fetch, credentials: undefined })
  const stream = () => send({}, { accept: "text/event-stream" })
  if (transport === "sse") return stream()
  const params = { _meta: ownMeta(version) }
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "server/discover", params })
  const response = await send(
    { method: "POST", body },
    {
      accept: ACCEPT_JSON_OR_SSE,
      "content-type": "application/json",
      "mcp-protocol-version": MODERN_VERSION,
      "mcp-method": "server/discover",
    },
  )
  if (![404, 405].includes(response.status) || transport !== "http") return response
  const older = await stream()
  if (isEventStream(older)) {
    await response.body?.cancel()
    return older
  }
  await older.body?.cancel()
  return response
}

const skewFinding = (ms: number): Finding => ({
  check: "clock",
  severity: "warning",
  what: `the clock of this machine is ${Math.round(Math.abs(ms) / 60_000)} min ${ms > 0 ? "ahead of" : "behind"} the clocks of the remote servers`,
  why: "servers refuse tokens and certificates as expired or not valid yet",
  fix: process.platform === "linux" ? "timedatectl set-ntp true" : "synchronize the clock over the network",
})
