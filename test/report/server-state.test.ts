import { expect, test } from "bun:test"
import { idleStateOf, stateOf, TONE_BY_STATE } from "../../src/report/server-state.ts"
import { backend, NOW } from "./snapshots.ts"

test.each([
  [backend("starting"), "starting"],
  [backend("connected"), "connected"],
  [backend("asleep"), "asleep"],
  [backend("waking"), "starting"],
  [backend("awake"), "connected"],
  [{ ...backend("connected"), responsive: false }, "degraded"],
  [{ ...backend("connected"), lastTransportFailure: { at: NOW - 1000, reason: "answered 502" } }, "degraded"],
  [backend("waiting"), "restarting"],
  [backend("recovering"), "restarting"],
  [backend("waiting", "remote", "reconnect"), "reconnecting"],
  [backend("recovering", "remote", "reconnect"), "reconnecting"],
  [backend("crashed"), "crash-loop"],
  [backend("failed"), "failed"],
  [backend("unauthorized"), "sign-in needed"],
  [{ ...backend("unauthorized"), refusal: "token needed" }, "token needed"],
  [{ ...backend("unauthorized"), refusal: "credentials refused" }, "credentials refused"],
  [backend("stopped"), "stopped"],
] as const)("people are shown one word for the state of a backend (%#) [states:words]", (server, word) => {
  expect(stateOf(server, NOW)).toBe(word)
})

test("a server without a process or connection has a word that says why [states:words]", () => {
  const idle = {
    disabled: ["off"],
    templates: ["t"],
    invalid: { bad: "url must be an http or https address" },
    unowned: { one: "runs on one replica at a time" },
  }
  expect(["off", "t", "bad", "one", "new"].map((name) => idleStateOf(name, idle))).toEqual([
    "disabled",
    "not in use",
    "invalid",
    "no owner",
    "not loaded",
  ])
  expect(idleStateOf("any", undefined)).toBe("not running")
})

test("the words are these [states:words]", () => {
  expect(Object.keys(TONE_BY_STATE)).toEqual([
    "starting",
    "connected",
    "asleep",
    "degraded",
    "reconnecting",
    "restarting",
    "crash-loop",
    "failed",
    "sign-in needed",
    "token needed",
    "credentials refused",
    "stopped",
    "disabled",
    "invalid",
    "no owner",
    "not in use",
    "not loaded",
    "not running",
  ])
})
