import { expect, test } from "bun:test"
import { createHmac } from "node:crypto"
import type { NotifyTarget } from "../../../src/config/notify.ts"
import { Delivery } from "../../../src/features/notify/delivery.ts"
import { testMessage } from "../../../src/features/notify/message.ts"
import { type Senders, sendMessage, signatureHeaders } from "../../../src/features/notify/send.ts"
import { manualClock, settle } from "../../clock.ts"

const WEBHOOK: NotifyTarget = {
  secrets: [],
  label: "notify[0] (hooks.test)",
  on: ["crash-loop"],
  downAfter: 1,
  to: { kind: "webhook", url: "https://hooks.test/T0/secret-path", headers: { "x-team": "a" }, secret: "key" },
}
const COMMAND: NotifyTarget = { ...WEBHOOK, to: { kind: "command", words: ["tell", "me"] } }

const message = (id: string) => testMessage(id, { host: "here" }, 1_800_000_000_000)

/** A delivery whose receiver answers with these statuses, and then with 200. */
function delivery(statuses: readonly (number | Error)[], headers: Record<string, string> = {}) {
  const clock = manualClock()
  const log: string[] = []
  const sent: { readonly id: string; readonly at: number }[] = []
  const left = [...statuses]
  const start = clock.now()
  const senders: Senders = {
    now: clock.now,
    commands: () => true,
    run: async () => ({ exitCode: 0, stderr: "" }),
    async send(_url, init) {
      sent.push({ id: new Headers(init.headers).get("webhook-id") ?? "", at: clock.now() - start })
      const next = left.shift() ?? 200
      if (next instanceof Error) throw next
      return new Response(null, { status: next, headers })
    },
  }
  const to = new Delivery(WEBHOOK, {
    senders,
    clock,
    log: { info: (text) => log.push(text), warn: (text) => log.push(text) },
  })
  return { to, clock, log, sent }
}

test("what a target cannot take now is sent again under the same id, and an outage is one line of the log [notify:retry]", async () => {
  const { to, clock, log, sent } = delivery([new Error("refused"), 503, 429])
  to.add(message("a"))
  to.add(message("b"))
  await clock.pass(60_000)
  expect(sent).toEqual([
    { id: "a", at: 0 },
    { id: "a", at: 1000 },
    { id: "a", at: 6000 },
    { id: "a", at: 36_000 },
    { id: "b", at: 36_000 },
  ])
  expect(log).toHaveLength(2)
  expect(log[0]).toContain("notify[0] (hooks.test) did not accept a notification")
  expect(log[1]).toContain("lost meanwhile: 0")
})

test("a target decides when it wants the notification again [notify:retry]", async () => {
  const { to, clock, sent } = delivery([429], { "retry-after": "90" })
  to.add(message("a"))
  await clock.pass(100_000)
  expect(sent.map(({ at }) => at)).toEqual([0, 90_000])
})

test("a refusal is not repeated, and the number of attempts is bounded [notify:retry]", async () => {
  const refused = delivery([400])
  refused.to.add(message("a"))
  await refused.clock.pass(3_600_000)
  expect(refused.sent).toHaveLength(1)
  expect(refused.clock.timers).toBe(0)
  const down = delivery(Array(100).fill(500))
  down.to.add(message("a"))
  await down.clock.pass(3_600_000)
  expect(down.sent).toHaveLength(6)
  expect(down.clock.timers).toBe(0)
})

test("the queue of a target that is down is bounded, and keeps the newest [notify:retry]", async () => {
  const { to, clock, sent } = delivery(Array(6).fill(500))
  for (let at = 0; at < 300; at++) to.add(message(String(at)))
  await clock.pass(3_600_000)
  for (let turn = 0; sent.at(-1)?.id !== "299" && turn < 100; turn++) await settle()
  expect(new Set(sent.map(({ id }) => id)).size).toBe(101)
  expect(sent.at(-1)?.id).toBe("299")
  await to.close()
})

test("closing ends a delivery that waits [notify:retry]", async () => {
  const { to, clock } = delivery(Array(100).fill(500))
  to.add(message("a"))
  await clock.pass(10)
  await to.close()
  expect(clock.timers).toBe(0)
})

test("requests are signed as Standard Webhooks says [notify:signed]", () => {
  const { id, body } = message("msg_1")
  const encoded = `whsec_${Buffer.from("the key").toString("base64")}`
  const mac = (key: string) => createHmac("sha256", key).update(`msg_1.1800000000.${body}`).digest("base64")
  expect(signatureHeaders({ id, body }, encoded, 1_800_000_000_999)).toEqual({
    "webhook-id": "msg_1",
    "webhook-timestamp": "1800000000",
    "webhook-signature": `v1,${mac("the key")}`,
  })
  expect(signatureHeaders({ id, body }, "plain", 1_800_000_000_000)["webhook-signature"]).toBe(`v1,${mac("plain")}`)
  expect(signatureHeaders({ id, body }, undefined, 0)).not.toHaveProperty("webhook-signature")
})

test("a command runs only where commands are allowed, and gets the notification on stdin and in variables [notify:command]", async () => {
  const ran: unknown[] = []
  const send = (commands: boolean, exitCode = 0) =>
    sendMessage(
      COMMAND,
      message("a"),
      {
        now: () => 0,
        commands: () => commands,
        send: () => Promise.reject(new Error("no request")),
        async run(words, input, variables) {
          ran.push([words, JSON.parse(input).type, variables.SVC_NOTIFY_TYPE])
          return { exitCode, stderr: "first\nno such user\n" }
        },
      },
      new AbortController().signal,
    )
  const refused = await send(false)
  expect([refused.kind, ran]).toEqual(["failed", []])
  expect((await send(true)).kind).toBe("sent")
  expect(ran).toEqual([[["tell", "me"], "svc.test", "test"]])
  expect(await send(true, 3)).toEqual({
    kind: "failed",
    reason: "tell ended with exit code 3: no such user",
    again: true,
  })
})
