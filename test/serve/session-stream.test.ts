/** The stream of a session on a replica that stops: nothing may be sent to a stream that is about to end. */
import { expect, test } from "bun:test"
import type { OpenStream } from "../../src/serve/http-exchange.ts"
import { openSessionStream } from "../../src/serve/session-stream.ts"
import type { EventSink } from "../../src/session/event-log.ts"
import { Session } from "../../src/session/session.ts"
import { AGGREGATE } from "../fakes.ts"

const open = () => {
  const session = new Session("s", "p", AGGREGATE, { protocolVersion: "2025-06-18" })
  const streams = new Set<OpenStream>()
  const get = (last: string | null) => openSessionStream(session, last, streams)
  const drain = () => {
    for (const stream of [...streams]) stream.drain?.()
  }
  return { session, get, drain }
}

const idsIn = (text: string): readonly string[] => [...text.matchAll(/^id: (.*)$/gm)].map(([, id = ""]) => id)

test("a stream that has left a replica is not opened there again; messages that its client has not read come first [cluster:drain:stream]", async () => {
  const { session, get, drain } = open()
  const first = get(null)
  session.notify('"one"')
  session.notify('"two"')
  drain()
  const text = await first.text()
  const [one = "", two = ""] = idsIn(text)
  // Its connection broke before the second.
  expect(idsIn(await get(one).text())).toEqual([two])
  session.notify('"three"')
  for (const last of [two, null, "another-log-1"]) {
    const response = get(last)
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"])
  }
  // Messages that arrive meanwhile are held back.
  expect(session.outlet).toBeUndefined()
})

test("the stream of a running call can be resumed on a replica that stops [cluster:drain:stream]", async () => {
  const { session, get, drain } = open()
  const standing = get(null)
  const broken: EventSink = { event: () => false, end() {} }
  const call = session.events.open(broken, 7)
  const start = session.events.start(call)
  drain()
  await standing.text()
  const resumed = get(start)
  session.events.send(call, '"answer"')
  session.events.end(call)
  expect(await resumed.text()).toContain("answer")
})
