import { expect, test } from "bun:test"
import fc from "fast-check"
import type { Snapshot } from "../../../src/agent/snapshot.ts"
import {
  type Alert,
  type AlertFacts,
  alertsOf,
  downServers,
  type Tracked,
  track,
} from "../../../src/features/notify/alerts.ts"
import type { ClientToken } from "../../../src/store/client-tokens.ts"
import { backend, NOW, snapshot } from "../../report/snapshots.ts"

const DAY = 86_400_000
const MINUTE = 60_000

const alerts = (current: Snapshot, facts: Partial<AlertFacts> = {}) =>
  alertsOf({
    now: NOW,
    snapshot: current,
    cluster: undefined,
    tokens: [],
    signIns: [],
    downAfter: 5 * MINUTE,
    ...facts,
  })

const kindsOf = (found: readonly Alert[]) => found.map(({ kind, subject }) => `${kind} ${subject}`)

const token = (created: number, expires: number): ClientToken => ({
  id: "0123456789ab",
  name: "ci",
  created: new Date(NOW + created).toISOString(),
  expires: new Date(NOW + expires).toISOString(),
  hash: "",
})

test("each state that needs a person is an alert, and those that do not are none [notify:kinds]", () => {
  const kinds = [
    "connected",
    "asleep",
    "waking",
    "stopped",
    "starting",
    "waiting",
    "recovering",
    "failed",
    "crashed",
  ] as const
  const all = alerts(snapshot([...kinds.map((kind) => backend(kind)), backend("unauthorized")]))
  expect(kindsOf(all)).toEqual([
    "server-down starting",
    "server-down waiting",
    "server-down recovering",
    "server-down failed",
    "crash-loop crashed",
    "sign-in unauthorized",
  ])
  for (const { text } of all) expect(text).toContain("`svc ")
})

test("changed tools, errors of the configuration and differing replicas are alerts [notify:kinds]", () => {
  const changed = { ...backend("connected"), changedTools: ["b", "a", "c", "d", "e", "f"] }
  const issues = [
    { code: "json", severity: "error", message: "not valid JSON", file: "mcp.json", line: 3, column: 1 },
    { code: "unknown_key", severity: "warning", message: "unknown key" },
  ] as const
  const found = alerts({ ...snapshot([changed]), issues }, { cluster: { differing: ["r2"] } })
  expect(kindsOf(found)).toEqual(["tools-changed connected", "configuration configuration", "configuration replica r2"])
  expect(found[0]?.text).toContain("b, a, c, d, e, and 1 more")
  expect(found[1]?.text).toContain("mcp.json:3:1")
  expect(found[1]?.text).not.toContain("unknown key")
})

test("a token is an alert a week before its end, one that lives shorter in the last fifth of its life [notify:kinds]", () => {
  const due = (created: number, expires: number) =>
    alerts(snapshot([]), { tokens: [token(created, expires)] }).map(({ version }) => version)
  expect(due(-100 * DAY, 8 * DAY)).toEqual([])
  expect(due(-100 * DAY, 7 * DAY)).toEqual(["expires"])
  expect(due(-100 * DAY, -1)).toEqual(["has expired"])
  expect(due(-100 * DAY, -2 * DAY)).toEqual([])
  expect(due(0, 5 * DAY)).toEqual([])
  expect(due(-4 * DAY, DAY)).toEqual(["expires"])
})

test("a sign-in that svc cannot renew is an alert before its end [notify:kinds]", () => {
  const due = (expires: number, renews: boolean) =>
    alerts(snapshot([]), {
      signIns: [{ server: "web", expires: new Date(NOW + expires).toISOString(), renews }],
    }).length
  expect([due(10 * MINUTE, false), due(10 * MINUTE, true), due(60 * MINUTE, false), due(-1, false)]).toEqual([
    1, 0, 0, 0,
  ])
})

test("before a configuration is loaded, nothing is an alert [notify:kinds]", () => {
  expect(alerts({ ...snapshot([backend("crashed")]), loaded: false })).toEqual([])
})

const ALERT: Alert = { kind: "crash-loop", subject: "a", server: "a", text: "a crashed", version: "", holdMs: 0 }

/** Feeds moments to `track`: at each, in minutes, the alerts that hold, and the servers that are down. */
function story(...moments: readonly (readonly [minute: number, alerts: readonly Alert[], down?: readonly string[]])[]) {
  let tracked: Tracked = new Map()
  return moments.map(([minute, alerts, down = []]) => {
    const next = track(tracked, alerts, new Set(down), NOW + minute * MINUTE)
    tracked = next.tracked
    return next.notices.map(({ status }) => status).join()
  })
}

test("an alert is told once, and once when it is over [notify:once]", () => {
  expect(story([0, [ALERT]], [1, [ALERT]], [2, []], [3, []])).toEqual(["firing", "", "resolved", ""])
})

test("an alert is told only when it has held for its time, and then nothing is said of a shorter one [notify:once]", () => {
  const slow = { ...ALERT, holdMs: 5 * MINUTE }
  expect(story([0, [slow]], [4, [slow]], [5, []], [6, [slow]], [10, [slow]], [11, [slow]])).toEqual([
    "",
    "",
    "",
    "",
    "",
    "firing",
  ])
})

test("an alert that comes and goes is told at most every ten minutes, and not forgotten [notify:once]", () => {
  expect(story([0, [ALERT]], [1, []], [2, [ALERT]], [9, [ALERT]], [10, [ALERT]], [11, [ALERT]])).toEqual([
    "firing",
    "resolved",
    "",
    "",
    "firing",
    "",
  ])
})

test("another problem of the same kind is told, too [notify:once]", () => {
  const other = { ...ALERT, version: "other" }
  expect(story([0, [ALERT]], [1, [other]], [10, [other]], [11, [other]])).toEqual(["firing", "", "firing", ""])
})

test("a server that is being restarted has not recovered yet [notify:once]", () => {
  expect(story([0, [ALERT]], [1, [], ["a"]], [2, [ALERT], ["a"]], [3, [], ["a"]], [4, []])).toEqual([
    "firing",
    "",
    "",
    "",
    "resolved",
  ])
  const down = downServers({
    snapshot: snapshot([backend("recovering"), backend("connected"), backend("asleep")]),
    now: NOW,
  })
  expect([...down]).toEqual(["recovering"])
})

test("whatever happens, each end is told after its beginning, and what is remembered is bounded [notify:once]", () => {
  const step = fc.record({ minutes: fc.nat(20), holds: fc.subarray(["a", "b"]), down: fc.subarray(["a", "b"]) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
      let tracked: Tracked = new Map()
      let now = NOW
      const firing = new Set<string>()
      for (const { minutes, holds, down } of steps) {
        now += minutes * MINUTE
        const next = track(
          tracked,
          holds.map((subject) => ({ ...ALERT, subject })),
          new Set(down),
          now,
        )
        tracked = next.tracked
        for (const { subject, status } of next.notices) {
          expect(firing.has(subject)).toBe(status === "resolved")
          if (status === "firing") firing.add(subject)
          else firing.delete(subject)
        }
        expect(tracked.size).toBeLessThanOrEqual(2)
      }
      const end = track(track(tracked, [], new Set(), now).tracked, [], new Set(), now + DAY)
      expect(end.tracked.size).toBe(0)
    }),
  )
})
