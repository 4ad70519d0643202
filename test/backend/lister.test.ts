/** What a server is told on a connection that is open, or has been opened anew. */
import { expect, test } from "bun:test"
import { Connection } from "../../src/backend/connection.ts"
import { Lister } from "../../src/backend/lister.ts"
import type { Peer } from "../../src/backend/negotiate.ts"
import { buildCatalog, EMPTY_CATALOG, viewOf } from "../../src/catalog/catalog.ts"
import { createScope } from "../../src/catalog/scope.ts"
import type { Spec } from "../../src/config/spec.ts"
import { silentLog } from "../../src/lib/log.ts"
import { createIds, encode } from "../../src/wire/frame.ts"
import { manualClock } from "../clock.ts"
import { ODD_NUMBERS } from "../numbers.ts"

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

test("what a server lists is offered with its numbers as written, and fresh no longer than a double can say", async () => {
  const clock = manualClock()
  const ids = createIds("x")
  const hooks = { owner: undefined, onnoise() {}, onnotification() {} }
  const connection = new Connection("s", ids, clock, hooks)
  const tool = `"inputSchema":{"type":"object","properties":{"n":{"enum":[${ODD_NUMBERS}]}}}`
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(_frame, { number = 0 }) {
      const list = `{"tools":[{"name":"t",${tool}}],"ttlMs":1e400,"cacheScope":"public"}`
      connection.receive(encode(`{"jsonrpc":"2.0","id":"${ids.text(number)}","result":${list}}`))
    },
  })
  const peer = { era: "2026", capabilities: { tools: {} } } as unknown as Peer
  const about = { onlisting() {}, subscriptions: () => [], logLevel: () => undefined }
  const listing = await new Lister(spec, connection, peer, about, { clock, log: silentLog, version: "1" }).list()
  const offered = { ...spec, id: "s", slug: "s", tuning: { disabledTools: [], toolDescriptionOverrides: {} } }
  const catalog = buildCatalog([{ spec: offered as unknown as Spec, listing }], EMPTY_CATALOG)
  for (const [scope, name] of [
    [{ kind: "server", id: "s" }, "t"],
    [
      createScope(
        () => [],
        () => new Map(),
      ),
      "s_svc_t",
    ],
  ] as const)
    expect(viewOf(catalog, scope).list("tools/list", "2026")).toBe(
      `{"resultType":"complete","tools":[{"name":"${name}",${tool}}],"ttlMs":9007199254740991,"cacheScope":"public"}`,
    )
})
