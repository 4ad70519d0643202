/** What a server is told on a connection that is open, or has been opened anew. */
import { expect, test } from "bun:test"
import { Connection } from "../../src/backend/connection.ts"
import { Lister } from "../../src/backend/lister.ts"
import type { Peer } from "../../src/backend/negotiate.ts"
import type { Spec } from "../../src/config/spec.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createIds } from "../../src/wire/frame.ts"
import { manualClock } from "../clock.ts"

const spec = { name: "s", tuning: { requestTimeout: 1000 } } as unknown as Spec

function open(peer: Partial<Peer>, wanted: { level: string | undefined; uris: readonly string[] }) {
  const clock = manualClock()
  const sent: unknown[] = []
  const connection = new Connection("s", createIds("x"), clock, {
    owner: undefined,
    onnoise() {},
    onnotification() {},
  })
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(frame) {
      const { method, params } = JSON.parse(String(frame))
      if (!String(method).endsWith("/list")) sent.push([method, params.level ?? params.uri])
    },
  })
  const lister = new Lister(
    spec,
    connection,
    { era: "2025", capabilities: { logging: {}, resources: { subscribe: true } }, ...peer } as Peer,
    { onlisting() {}, subscriptions: () => wanted.uris, logLevel: () => wanted.level },
    { clock, log: silentLog, version: "1" },
  )
  return { lister, sent }
}

test("a server that has forgotten its session is told again what clients want of it", () => {
  const { lister, sent } = open({}, { level: "error", uris: ["a:b"] })
  const wanted = [
    ["resources/subscribe", "a:b"],
    ["logging/setLevel", "error"],
  ]
  lister.begin()
  expect(sent).toEqual(wanted)
  lister.renew()
  expect(sent).toEqual([...wanted, ...wanted])
  lister.end()
})

test("a server is told no level where nobody wants one, where it has none, or where requests say it", () => {
  for (const [peer, level] of [
    [{}, undefined],
    [{ capabilities: {} }, "error"],
    [{ era: "2026", capabilities: { logging: {} } }, "error"],
  ] as const) {
    const { lister, sent } = open(peer, { level, uris: [] })
    lister.begin()
    lister.relevel()
    expect(sent).toEqual([])
    lister.end()
  }
})
