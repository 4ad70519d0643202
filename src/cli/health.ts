/** `svc health`: shows the health of svc, or, for pipelines, waits until it is ready. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import { Backoff } from "../lib/backoff.ts"
import { delay, systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { messageOf, UnavailableError } from "../lib/errors.ts"
import { networkReason } from "../lib/network-error.ts"
import { issueLines, print, say, stdoutLook, table } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"
import { paint, type Tone } from "../lib/terminal.ts"
import { counted } from "../lib/text.ts"
import { HEALTH_LEVELS, type HealthLevel, overallHealth } from "../report/health.ts"
import { type ServerState, stateCell } from "../report/server-state.ts"
import { sharedStateNotes } from "../report/shared-state.ts"
import type { Status } from "../report/status.ts"
import { defaultAddress, namedPort } from "../serve/default-address.ts"
import { type LocalConfiguration, runningStatus, runningUrl } from "../serve/local-configuration.ts"
import { isObject, type Params } from "../wire/message.ts"

export const health: CommandDef = {
  meta: { name: "health", description: "Show the health of svc; with --wait, wait until it is ready" },
  args: {
    ...CONTEXT_ARGS,
    url: {
      type: "string",
      description: "Address of svc, or unix:/path (default: the svc of this configuration, or the one at SVC_PORT)",
    },
    level: {
      type: "string",
      description: "Detail: full, basic or minimal (default full); for the svc of this configuration",
      valueHint: "full|basic|minimal",
    },
    wait: { type: "string", description: "Wait up to this long until svc is ready, such as 60s" },
    all: { type: "boolean", description: "Exit with 69 unless every enabled server is loaded and healthy" },
  },
  async run({ args }) {
    const option = readOptions(args, process.env)
    if (args.level !== undefined && args.url !== undefined)
      throw usageError(
        "--level cannot be used with --url: the svc at that address sets its own level with --health-info-level",
      )
    const port = namedPort()
    const given = option.text("url")
    if (given !== undefined && !isAddress(given))
      throw usageError(`--url must be an http or https address or unix:/path, not ${given}`)
    const url = (given ?? defaultAddress()).replace(/\/+$/, "")
    const context = openContext(args)
    const askOwn = askControl(context, option.choice("level", HEALTH_LEVELS, "full"))
    const isOwn = async () => args.level !== undefined || (given === undefined && (await runsAt(context, port)))
    const ask: AskHealth = async (path) => {
      if (await isOwn()) return askOwn(path)
      // An svc at the default address would serve another configuration.
      if (given === undefined && port === undefined)
        throw notRunning(context.paths, ", or give the address of another svc with --url")
      return askHttp(url, path)
    }
    const wait = typeof args.wait === "string" ? option.duration("wait", 0) : undefined
    if (wait !== undefined) {
      await waitUntilReady(ask, wait)
      const { body } = await ask("/health/mcp")
      for (const note of notesOfUnawaited(body)) say(note)
    }
    const { body } = await ask("/health")
    const ready = await ask("/health/ready")
    const starting = startingOf(await ask("/health/mcp"))
    const isStarting = body.status === "unhealthy" && ready.ok && starting?.mayHelp === true
    const status = args.json !== true && (await isOwn()) ? await runningStatus(context) : undefined
    print(args.json === true, body, () => describe(body, isStarting, starting?.text, status))
    if (args.all === true && invalidCount(body) > 0) {
      const live = status ?? ((await isOwn()) ? await runningStatus(context) : undefined)
      for (const note of notesOfInvalid(body, live)) say(note)
    }
    const suffices = args.all === true ? areAllHealthy(body) : body.status !== "unhealthy"
    if (suffices && ready.ok) return 0
    return isStarting || (args.all === true && starting !== undefined) ? STARTING_EXIT : 69
  },
}

// ---

/** EX_TEMPFAIL: the next try may succeed. */
const STARTING_EXIT = 75
const FIRST_PAUSE_MS = 50
/** With this pause, two requests per pause always stay below the rate limit. */
const LAST_PAUSE_MS = 4000
const REPORT_AFTER_MS = 1000
const MOST_NAMED = 5

const isAddress = (text: string): boolean => /^unix:./.test(text) || (URL.canParse(text) && /^https?:/i.test(text))

type HealthPath = "/health" | "/health/ready" | "/health/mcp"
type HealthReply = { readonly ok: boolean; readonly body: Record<string, unknown> }
type AskHealth = (path: HealthPath) => Promise<HealthReply>

/** Requests a health report over HTTP, as a load balancer does. */
async function askHttp(url: string, path: HealthPath): Promise<HealthReply> {
  let response: Response
  let body: unknown
  const unix = /^unix:(.+)$/.exec(url)?.[1]
  try {
    const signal = AbortSignal.timeout(10_000)
    const { SVC_TOKEN } = process.env
    const headers = SVC_TOKEN === undefined ? {} : { authorization: `Bearer ${SVC_TOKEN}` }
    response =
      unix === undefined
        ? await fetch(`${url}${path}`, { signal, headers })
        : await fetch(`http://localhost${path}`, { signal, headers, unix })
    body = await response.json()
  } catch (cause) {
    throw new UnavailableError(
      `${unix === undefined ? networkReason(url, cause) : `nothing listens at ${url}`}; start it with \`svc serve\`, or give its address with --url`,
      {
        cause,
      },
    )
  }
  // /health/mcp may require a token; a refusal has no report.
  if (isObject(body) && (typeof body.status === "string" || path === "/health/mcp"))
    return { ok: response.ok, body: { ...body } }
  if (response.status === 429) throw new UnavailableError(`${url} limits the rate of requests; try again later`)
  throw new UnavailableError(`${url}${path} is not svc: it answered ${response.status} without a health report`)
}

/** Whether the svc of this configuration runs, on `port` if one is given. */
async function runsAt(context: LocalConfiguration, port: number | undefined): Promise<boolean> {
  const url = await runningUrl(context)
  return url !== undefined && (port === undefined || new URL(url).port === String(port))
}

/**
 * Returns how many servers are ready and which are in their first start, such as `1 of 2 servers ready (starting: web)`, and
 * whether svc would no longer be unhealthy if all of these connected; undefined once no server is in its first start.
 */
function startingOf({ ok, body }: HealthReply): { readonly text: string; readonly mayHelp: boolean } | undefined {
  const { loading, summary, servers } = body
  if (!ok || !isObject(loading) || loading.isComplete !== false || !isObject(summary)) return undefined
  const byState = isObject(servers) && isObject(servers.byState) ? servers.byState : {}
  const names = [byState.pending, byState.loading].flatMap((found) => (Array.isArray(found) ? found.map(String) : []))
  const starting =
    names.length === 0
      ? `${Number(summary.pending) + Number(summary.loading)} starting`
      : `starting: ${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? ", …" : ""}`
  const total = Number(summary.total)
  const atBest = [summary.ready, summary.pending, summary.loading].reduce((sum: number, one) => sum + Number(one), 0)
  return {
    text: `${summary.ready} of ${counted(total, "server")} ready (${starting})`,
    mayHelp: overallHealth(true, total, atBest) !== "unhealthy",
  }
}

/** Whether all enabled servers of a health report are healthy, and none is left out because of an error in its entry. */
const areAllHealthy = (body: Params): boolean =>
  isObject(body.servers) && body.servers.healthy === body.servers.total && invalidCount(body) === 0

/** Returns the number of servers that are not loaded because of an error; 0 from an svc that does not report it. */
const invalidCount = ({ configuration }: Params): number =>
  isObject(configuration) ? Number(configuration.invalidCount ?? 0) : 0

/** Says which servers are not loaded: by name, with the reason, if `live` is given, else in numbers. */
const notesOfInvalid = (body: Params, live: Status | undefined): readonly string[] =>
  live === undefined
    ? [`${counted(invalidCount(body), "server")} not loaded because of errors in the configuration`]
    : Object.entries(live.invalid).map(([name, reason]) => `${name} is not loaded: ${reason}`)

/** Says which servers `--wait` does not wait for: by name if the report has names, else in numbers. */
function notesOfUnawaited({ servers, summary }: Params): readonly string[] {
  const byState = isObject(servers) && isObject(servers.byState) ? servers.byState : undefined
  const { failed = 0, awaitingOAuth = 0 } = isObject(summary) ? summary : {}
  return [
    ["failed", failed, "failed"],
    ["awaiting_oauth", awaitingOAuth, "needs a sign-in or valid credentials"],
  ].flatMap(([state, count, what]) => {
    const names = byState?.[String(state)]
    if (Array.isArray(names)) return names.map((name) => `${name} ${what}: not waiting for it`)
    return byState === undefined && Number(count) > 0
      ? [`${counted(Number(count), "server")} ${what}: not waiting for it`]
      : []
  })
}

/** Returns a function that asks over the control socket, which allows any level of detail. */
function askControl({ ask, paths }: LocalConfiguration, level: HealthLevel): AskHealth {
  return async (path) => {
    const answer = await ask("health", { path, level })
    if (!isObject(answer) || !isObject(answer.body)) throw notRunning(paths)
    return { ok: answer.ok === true, body: answer.body }
  }
}

/**
 * Resolves when svc is ready and all servers have finished their first start. Throws an UnavailableError with the reason if
 * not: after `ms` milliseconds, or at once if svc has given up on a server that prevents readiness.
 */
async function waitUntilReady(ask: AskHealth, ms: number): Promise<void> {
  const started = systemClock.now()
  const backoff = new Backoff({ first: FIRST_PAUSE_MS, max: LAST_PAUSE_MS })
  let reported = false
  for (;;) {
    const found = await reasonNotReady(ask)
    if (found === undefined) return
    const { why, isFinal } = found
    if (isFinal)
      throw new UnavailableError(
        `not ready, and waiting does not help: ${why}; correct the cause, then run \`svc mcp restart NAME\``,
      )
    const passed = systemClock.now() - started
    if (passed >= ms) throw new UnavailableError(`not ready after ${Math.round(passed / 1000)} s: ${why}`)
    if (!reported && passed > REPORT_AFTER_MS) {
      reported = true
      say(`waiting: ${why}`)
    }
    await delay(systemClock, Math.min(backoff.next(), ms - passed))
  }
}

async function reasonNotReady(ask: AskHealth): Promise<NotReady | undefined> {
  try {
    const ready = await ask("/health/ready")
    if (!ready.ok) {
      const { configuration, backendSupervision } = ready.body
      if (isObject(configuration) && configuration.loaded === false) return notYet("the configuration is not loaded")
      return describeBlocking(backendSupervision)
    }
    const { ok, body } = await ask("/health/mcp")
    if (!ok) return notYet("svc requires a token to report on loading; set SVC_TOKEN")
    const { loading, summary } = body
    if (!isObject(loading) || loading.isComplete !== false) return undefined
    const { pending = 0, loading: starting = 0, total } = isObject(summary) ? summary : {}
    return notYet(`${Number(pending) + Number(starting)} of ${total} servers are starting`)
  } catch (error) {
    return notYet(messageOf(error))
  }
}

/** Why svc is not ready; `isFinal`: svc has given up on a server, so that only a change to it or a restart helps. */
type NotReady = { readonly why: string; readonly isFinal: boolean }

const notYet = (why: string): NotReady => ({ why, isFinal: false })

/** Describes the supervised servers that prevent readiness: by name if the report has names, else in numbers. */
function describeBlocking(supervision: unknown): NotReady {
  if (!isObject(supervision)) return notYet("svc does not report the reason")
  const { restarting, crashLoop } = supervision
  if (typeof restarting === "number")
    return {
      why: `supervised servers: ${restarting} restarting, ${crashLoop} in a crash loop`,
      isFinal: Number(crashLoop) > 0,
    }
  const all = Object.values(supervision).filter(isObject)
  const blocking = all.flatMap((one) =>
    one.state === "restarting" || one.state === "crash-loop"
      ? [`${one.backendId} is ${one.state === "restarting" ? "restarting" : "in a crash loop"} (${one.lastError})`]
      : [],
  )
  return { why: blocking.join(", "), isFinal: all.some(({ state }) => state === "crash-loop") }
}

/**
 * Describes a health report. `isStarting`: whether it is unhealthy only until the servers in their first start connect.
 * `starting`: how many servers are ready, while any is in its first start. Without `live`, the status of this svc, the states
 * are derived from the report, which distinguishes fewer.
 */
function describe(
  body: Record<string, unknown>,
  isStarting: boolean,
  starting: string | undefined,
  live: Status | undefined,
): string {
  const { status, version, system, servers, configuration } = body
  const pid = isObject(system) && isObject(system.process) ? system.process.pid : undefined
  const states = new Map(live?.servers.map(({ id, state }) => [id, state]))
  const invalid = invalidCount(body)
  const off =
    isObject(configuration) && Number(configuration.disabledCount) > 0
      ? `, ${configuration.disabledCount} disabled`
      : ""
  const absent = invalid > 0 ? `, ${invalid} not loaded` : ""
  const verdict = isStarting ? "starting" : String(status)
  const [word, facts] = verdictOf(verdict, isObject(servers) ? servers : {}, `${off}${absent}` !== "", starting)
  const details = isObject(servers) && Array.isArray(servers.details) ? servers.details.filter(isObject) : []
  const rows = details.map((one) => [
    String(one.name),
    stateCell(states.get(String(one.name)) ?? stateOfReport(one, live)),
    // A healthy server's past error no longer matters.
    one.healthy === true ? "" : String(one.lastError ?? ""),
  ])
  const look = stdoutLook()
  return [
    wrap(
      `${paint(word, VERDICT_TONES[word] ?? "bad", look)} (svc ${version}${pid === undefined ? "" : `, process ${pid}`}): ${facts}${off}${absent}`,
      look,
    ),
    ...(rows.length > 0 ? [table(["name", "state", "note"], rows)] : []),
    ...sharedStateNotes(live).map((note) => wrap(note, look)),
    ...(live !== undefined && live.issues.length > 0 ? [issueLines(live.issues)] : []),
  ].join("\n\n")
}

/** Returns the word and the facts of the first line. */
function verdictOf(
  status: string,
  { healthy, total }: Params,
  isAnyLeftOut: boolean,
  starting: string | undefined,
): readonly [word: string, facts: string] {
  // Having no servers is not a problem.
  if (total === 0 && status === "degraded")
    return ["running", isAnyLeftOut ? "no server runs" : "no servers yet; add one with `svc mcp add`"]
  return [status, starting ?? `${healthy} of ${counted(Number(total), "server")} healthy`]
}

const VERDICT_TONES: Readonly<Record<string, Tone>> = {
  healthy: "good",
  running: "good",
  starting: "notice",
  degraded: "notice",
  unhealthy: "bad",
}

/** Derives the state of a server from its entry in `/health`. */
function stateOfReport({ name, status, healthy, attempt, refusal }: Params, live: Status | undefined): ServerState {
  if (live?.unowned?.[String(name)] !== undefined) return "no owner"
  switch (status) {
    case "connected":
      return healthy === true ? "connected" : "degraded"
    case "awaiting_oauth":
      return refusal === "credentials refused" || refusal === "token needed" ? refusal : "sign-in needed"
    case "error":
      return "failed"
    default:
      return Number(attempt) > 0 ? "restarting" : "starting"
  }
}
