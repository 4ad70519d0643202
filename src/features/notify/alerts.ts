/**
 * What people must be told of, pure: the alerts that hold at a moment, and which of them are news.
 *
 *  1. An alert is told when it has held for its `holdMs`, and once more when it is over. One about the state of a server is over
 *     only when the server is available again, or no longer runs.
 *  2. An alert that is told holds its peace for QUIET_MS, however often it ends and begins again; so does one whose text changes.
 */
import type { BackendSnapshot, Snapshot } from "../../agent/snapshot.ts"
import type { AlertKind } from "../../config/schema.ts"
import { formatIssue } from "../../lib/errors.ts"
import { counted } from "../../lib/text.ts"
import type { ClusterFacts } from "../../report/health.ts"
import { stateOf } from "../../report/server-state.ts"
import { type ClientToken, describeToken } from "../../store/client-tokens.ts"

/** A problem that holds now. */
export type Alert = {
  readonly kind: AlertKind
  /** What it is about: the id of a server or of a token. Kind and subject together are unique. */
  readonly subject: string
  /** The name of the server, if it is about one. */
  readonly server?: string
  /** What is wrong, and what to do. Not redacted. */
  readonly text: string
  /** Another value is another problem, which is told again. */
  readonly version: string
  /** How long it must hold before it is told, in milliseconds. */
  readonly holdMs: number
}

/** A change that is to be told. `since`: when the alert began, in milliseconds since the epoch. */
export type Notice = Pick<Alert, "kind" | "subject" | "server" | "text"> & {
  readonly status: "firing" | "resolved"
  readonly since: number
}

/** The sign-in to a remote server. `expires`: ISO 8601. */
export type EndingSignIn = { readonly server: string; readonly expires?: string; readonly renews: boolean }

/** What alerts depend on. */
export type AlertFacts = {
  readonly now: number
  readonly snapshot: Snapshot
  /** Undefined for a single svc. */
  readonly cluster: Pick<ClusterFacts, "differing"> | undefined
  readonly tokens: readonly ClientToken[]
  readonly signIns: readonly EndingSignIn[]
  /** Milliseconds. */
  readonly downAfter: number
}

/** Returns the alerts that hold; none until a configuration is loaded. */
export function alertsOf({ now, snapshot, cluster, tokens, signIns, downAfter }: AlertFacts): readonly Alert[] {
  if (!snapshot.loaded) return []
  return [
    ...snapshot.backends.flatMap((backend) => [...ofState(backend, now, downAfter), ...ofTools(backend)]),
    ...ofConfiguration(snapshot),
    ...(cluster?.differing ?? []).map(
      (replica): Alert => ({
        kind: "configuration",
        subject: `replica ${replica}`,
        text: `the configuration of replica ${replica} differs from that of this one; \`svc cluster\` shows the differences`,
        version: "",
        holdMs: 0,
      }),
    ),
    ...tokens.flatMap((token) => ofToken(token, now)),
    ...signIns.flatMap((signIn) => ofSignIn(signIn, now)),
  ]
}

/** What was seen of an alert. */
type Seen = {
  readonly alert: Alert
  readonly since: number
  /** The last time that it was told to hold; undefined if it was not. */
  readonly told: { readonly at: number; readonly version: string; readonly isOver: boolean } | undefined
}

/** The alerts that were seen, by kind and subject. */
export type Tracked = ReadonlyMap<string, Seen>

/** Returns the ids of the servers that svc has not made available: what was told of their state is not over. */
export const downServers = ({ snapshot, now }: Pick<AlertFacts, "snapshot" | "now">): ReadonlySet<string> =>
  new Set(snapshot.backends.filter((one) => !SETTLED.has(stateFor(one, now))).map(({ spec }) => spec.id))

/**
 * Compares the alerts that hold now with those seen before; `down` are the servers that are not available. Returns what is to be
 * remembered, and what is to be told.
 */
export function track(
  before: Tracked,
  alerts: readonly Alert[],
  down: ReadonlySet<string>,
  now: number,
): { readonly tracked: Tracked; readonly notices: readonly Notice[] } {
  const tracked = new Map<string, Seen>()
  const notices: Notice[] = []
  const tell = ({ kind, subject, server, text }: Alert, status: Notice["status"], since: number) =>
    notices.push({ kind, subject, ...(server === undefined ? {} : { server }), text, status, since })
  for (const alert of alerts) {
    const key = `${alert.kind} ${alert.subject}`
    const known = before.get(key)
    const told = known?.told
    const since = known === undefined || isEnded(known) ? now : known.since
    const isNews = told === undefined || told.isOver || told.version !== alert.version
    const isDue = now - since >= alert.holdMs && (told === undefined || now - told.at >= QUIET_MS)
    if (isNews && isDue) tell(alert, "firing", since)
    tracked.set(key, {
      alert,
      since,
      told: isNews && isDue ? { at: now, version: alert.version, isOver: false } : told,
    })
  }
  for (const [key, seen] of before) {
    const { alert, since, told } = seen
    if (tracked.has(key) || told === undefined) continue
    if (!told.isOver && OF_STATE.has(alert.kind) && down.has(alert.subject)) {
      tracked.set(key, seen)
      continue
    }
    if (!told.isOver) tell(alert, "resolved", since)
    if (now - told.at < QUIET_MS) tracked.set(key, { alert, since: ENDED, told: { ...told, isOver: true } })
  }
  return { tracked, notices }
}

// ---

const QUIET_MS = 10 * 60_000
const DAY_MS = 24 * 3_600_000
/** A person who is typing corrects the file within this time. */
const TYPING_MS = 5000
const MAX_NAMED = 5
/** `since` of an alert that does not hold. */
const ENDED = Number.POSITIVE_INFINITY

const SETTLED: ReadonlySet<string> = new Set(["connected", "asleep", "degraded", "stopped"])
const OF_STATE: ReadonlySet<AlertKind> = new Set(["sign-in", "crash-loop", "server-down"])

const isEnded = ({ since }: Seen): boolean => since === ENDED

const because = (reason: string | undefined): string => (reason === undefined ? "" : `: ${reason}`)

/** Returns the first of these texts, and how many more there are. */
const first = (texts: readonly string[], separator: string): string =>
  `${texts.slice(0, MAX_NAMED).join(separator)}${texts.length > MAX_NAMED ? `${separator}and ${texts.length - MAX_NAMED} more` : ""}`

/** A server that wakes is as healthy as it was asleep. */
const stateFor = (backend: BackendSnapshot, now: number): ReturnType<typeof stateOf> =>
  backend.state.kind === "waking" ? "asleep" : stateOf(backend, now)

function ofState(backend: BackendSnapshot, now: number, downAfter: number): readonly Alert[] {
  const { spec, lastError } = backend
  const about = { subject: spec.id, server: spec.name, version: "", holdMs: 0 }
  const state = stateFor(backend, now)
  switch (state) {
    case "sign-in needed":
      return [{ ...about, kind: "sign-in", text: `${spec.id} needs a sign-in; run \`svc auth login ${spec.name}\`` }]
    case "token needed":
      return [
        {
          ...about,
          kind: "sign-in",
          text: `${spec.id} requires a token; add the header Authorization to it in mcp.json`,
        },
      ]
    case "credentials refused":
      return [
        {
          ...about,
          kind: "sign-in",
          text: `${spec.id} refused the configured headers; write a valid token to mcp.json`,
        },
      ]
    case "crash-loop":
      return [
        {
          ...about,
          kind: "crash-loop",
          text: `${spec.id} crashed too often, and svc no longer restarts it${because(lastError)}; fix the cause, then run \`svc mcp restart ${spec.name}\``,
        },
      ]
    case "starting":
    case "restarting":
    case "reconnecting":
    case "failed":
      return [
        {
          ...about,
          kind: "server-down",
          text: `${spec.id} has not been available for ${durationText(downAfter)}${because(lastError)}; \`svc logs ${spec.name}\` shows its log`,
          holdMs: downAfter,
        },
      ]
    default:
      return []
  }
}

function ofTools({ spec, changedTools }: BackendSnapshot): readonly Alert[] {
  if (changedTools.length === 0) return []
  return [
    {
      kind: "tools-changed",
      subject: spec.id,
      server: spec.name,
      text: `tools of ${spec.id} have changed since they were first seen: ${first(changedTools, ", ")}; check them, then run \`svc mcp tools approve ${spec.name}\``,
      version: [...changedTools].sort().join("\n"),
      holdMs: 0,
    },
  ]
}

function ofConfiguration({ issues }: Snapshot): readonly Alert[] {
  const texts = issues.filter(({ severity }) => severity === "error").map(formatIssue)
  if (texts.length === 0) return []
  return [
    {
      kind: "configuration",
      subject: "configuration",
      text: `the configuration has ${counted(texts.length, "error")}: ${first(texts, "; ")}`,
      version: texts.join("\n"),
      holdMs: TYPING_MS,
    },
  ]
}

/** A token is told of a week before it expires; one that lives shorter, in the last fifth of its life. */
function ofToken(token: ClientToken, now: number): readonly Alert[] {
  const { id, created, expires } = token
  if (expires === undefined) return []
  const [from, until] = [Date.parse(created), Date.parse(expires)]
  const isSoon = now >= until - Math.min(7 * DAY_MS, (until - from) / 5)
  // Whoever wanted to replace it has done so by then.
  if (!isSoon || now > until + DAY_MS) return []
  const verb = now < until ? "expires" : "has expired"
  return [
    {
      kind: "token-expiry",
      subject: `token ${id}`,
      text: `client ${describeToken(token)} ${verb}: ${expires}; create another with \`svc auth token create\``,
      version: verb,
      holdMs: 0,
    },
  ]
}

function ofSignIn({ server, expires, renews }: EndingSignIn, now: number): readonly Alert[] {
  if (renews || expires === undefined) return []
  const left = Date.parse(expires) - now
  // When it has expired, the server says that it needs a sign-in.
  if (left > SIGN_IN_MS || left <= 0) return []
  return [
    {
      kind: "token-expiry",
      subject: server,
      server,
      text: `the sign-in to ${server} expires: ${expires}, and svc cannot renew it; run \`svc auth login ${server}\``,
      version: "",
      holdMs: 0,
    },
  ]
}

/** How long before the end of a sign-in a person is told: many last an hour. */
const SIGN_IN_MS = 15 * 60_000

/** Returns a time in words, rounded down to minutes, or seconds below one. */
const durationText = (ms: number): string =>
  ms >= 60_000 ? counted(Math.floor(ms / 60_000), "minute") : counted(Math.round(ms / 1000), "second")
