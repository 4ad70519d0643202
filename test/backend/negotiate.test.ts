import { describe, expect, test } from "bun:test"
import { UnauthorizedError } from "../../src/backend/client-transport.ts"
import { classify, HttpStatusError, isRefusal, type NegotiateOptions, negotiate } from "../../src/backend/negotiate.ts"
import { PeerError } from "../../src/backend/peer-error.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createRedactor } from "../../src/lib/redact.ts"
import { encode } from "../../src/wire/frame.ts"
import { fakeConnection } from "../fakes.ts"

type Asked = { id: string; method: string; params: Record<string, unknown> }

/** A connection to a server that answers by the given function; undefined is silence. */
function connect(answer: (asked: Asked) => object | undefined) {
  const asked: string[] = []
  const connection = fakeConnection(systemClock, (frame) => {
    const message = JSON.parse(String(frame)) as Asked
    asked.push(message.method)
    const said = answer(message)
    if (said !== undefined)
      queueMicrotask(() => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...said }))))
  })
  return { connection, asked }
}

const SECRET = "a-configured-secret"
const options = {
  mode: "auto",
  remembered: undefined,
  probeTimeout: 5000,
  timeout: 5000,
  version: "1",
  mask: createRedactor([SECRET]).maskKnown,
} as const
const hello = { result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "old" } } }
const discovered = { result: { resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: {} } }
const unknown = { error: { code: -32601, message: "no such method" } }

const legacy = ({ method }: Asked) => (method === "initialize" ? hello : unknown)
const modern = ({ method }: Asked) => (method === "server/discover" ? discovered : unknown)

describe("negotiation", () => {
  test("auto sends server/discover first and falls back on a positive sign of a legacy server [protocol:mode:auto]", async () => {
    const old = connect(legacy)
    expect(await negotiate(old.connection, options)).toMatchObject({ era: "legacy", protocolVersion: "2025-06-18" })
    expect(old.asked).toEqual(["server/discover", "initialize"])
    const fresh = connect(modern)
    expect(await negotiate(fresh.connection, options)).toMatchObject({ era: "modern", protocolVersion: "2026-07-28" })
    expect(fresh.asked).toEqual(["server/discover"])
  })

  test("a server that clients share is offered roots without changes; a client's own process, what the client offers [protocol:roots]", async () => {
    const offered = async (more: Partial<NegotiateOptions>) => {
      let capabilities: unknown
      const { connection } = connect((asked) => {
        if (asked.method === "initialize") ({ capabilities } = asked.params)
        return legacy(asked)
      })
      await negotiate(connection, { ...options, ...more })
      return capabilities
    }
    expect(await offered({})).toMatchObject({ roots: {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } })
    expect(await offered({})).not.toHaveProperty("roots.listChanged")
    const capabilities = { roots: { listChanged: true } }
    expect(await offered({ capabilities })).toEqual(capabilities)
  })

  test("legacy never sends server/discover [protocol:mode:legacy]", async () => {
    const { connection, asked } = connect(legacy)
    expect(await negotiate(connection, { ...options, mode: "legacy" })).toMatchObject({ era: "legacy" })
    expect(asked).toEqual(["initialize"])
    const refused = [unknown, { error: { code: -32022, message: "old", data: { supported: ["2026-07-28"] } } }]
    for (const refusal of refused) {
      const fresh = connect(() => refusal)
      await expect(negotiate(fresh.connection, { ...options, mode: "legacy" })).rejects.toThrow(
        "s: does not speak a legacy revision: it refused initialize",
      )
      expect(fresh.asked).toEqual(["initialize"])
    }
  })

  test("2026-07-28 does not fall back [protocol:mode:modern]", async () => {
    const pinned = { ...options, mode: "2026-07-28" } as const
    const lists = ({ method }: Asked) => (method === "tools/list" ? { result: { tools: [] } } : hello)
    for (const legacyServer of [legacy, (one: Asked) => (one.method === "server/discover" ? unknown : lists(one))]) {
      const { connection, asked } = connect(legacyServer)
      await expect(negotiate(connection, pinned)).rejects.toThrow(
        's: does not speak 2026-07-28: it refused server/discover (no such method); set protocolVersion to "auto" or "legacy"',
      )
      expect(asked).toEqual(["server/discover", "tools/list"])
    }
    // Without server/discover, modern results show that a server is modern.
    const list = { result: { resultType: "complete", tools: [] } }
    const lacking = connect(({ method }) => (method === "tools/list" ? list : unknown))
    expect(await negotiate(lacking.connection, pinned)).toMatchObject({ era: "modern", capabilities: { tools: {} } })
    const broken = connect(() => ({ error: { code: -32000, message: "not now" } }))
    await expect(negotiate(broken.connection, { ...options, mode: "2026-07-28" })).rejects.toThrow("not now")
  })

  test("a server that ignores the probe gets initialize", async () => {
    const { connection, asked } = connect((message) => (message.method === "initialize" ? hello : undefined))
    expect(await negotiate(connection, { ...options, probeTimeout: 1 })).toMatchObject({ era: "legacy" })
    expect(asked).toEqual(["server/discover", "initialize"])
  })

  test("a slow server of both eras is modern, whichever answer comes first", async () => {
    let probe = ""
    const { connection } = connect(({ id, method }) => {
      if (method === "initialize")
        queueMicrotask(() => connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: probe, ...discovered }))))
      else if (probe !== "") return discovered
      else probe = id
      return method === "initialize" ? hello : undefined
    })
    expect(await negotiate(connection, { ...options, probeTimeout: 1 })).toMatchObject({ era: "modern" })
  })

  test.each([hello, unknown])(
    "a slow server is legacy if initialize has changed it, and modern if it has not [protocol:mode:slow]",
    async (hello) => {
      let probe = ""
      const { connection, asked } = connect(({ id, method }) => {
        if (method === "initialize") {
          // It reads both requests at once, in their order.
          connection.receive(encode(JSON.stringify({ jsonrpc: "2.0", id: probe, ...discovered })))
          return hello
        }
        if (probe !== "") return "error" in hello ? discovered : unknown
        probe = id
        return undefined
      })
      let isInDoubt = false
      const ondoubt = () => {
        isInDoubt = true
      }
      const { era } = await negotiate(connection, { ...options, probeTimeout: 1, ondoubt })
      expect(asked).toEqual(["server/discover", "initialize", "server/discover"])
      expect([era, isInDoubt]).toEqual("error" in hello ? ["modern", false] : ["legacy", true])
    },
  )

  test("a 401 to a slow probe counts for more than the refusal of initialize [protocol:mode:unclean]", async () => {
    const { connection } = connect(({ method }) => {
      if (method !== "initialize") return undefined
      // The probe is the first request.
      queueMicrotask(() => connection.fail(1, new UnauthorizedError("401")))
      return unknown
    })
    const negotiating = negotiate(connection, { ...options, probeTimeout: 1 })
    expect(await negotiating.catch((error: unknown) => error)).toBeInstanceOf(UnauthorizedError)
  })

  test("a remembered era skips the probe, unless the server no longer speaks it", async () => {
    const { connection, asked } = connect(legacy)
    await negotiate(connection, { ...options, remembered: "legacy" })
    expect(asked).toEqual(["initialize"])
    const upgraded = connect(modern)
    expect(await negotiate(upgraded.connection, { ...options, remembered: "legacy" })).toMatchObject({ era: "modern" })
    expect(upgraded.asked).toEqual(["initialize", "server/discover"])
  })

  const odd: readonly (readonly [string, object, boolean])[] = [
    ["internal error", { error: { code: -32603, message: "internal" } }, true],
    ["malformed error", { error: { message: 5 } }, true],
    ["no result", {}, false],
    ["empty result", { result: {} }, false],
    ["null", { result: null }, false],
    ["text", { result: "ok" }, false],
    ["result and error", { result: {}, error: { code: 1, message: "" } }, false],
    ["revisions as text", { result: { supportedVersions: "2026-07-28" } }, false],
    ["an unsupported revision without others", { error: { code: -32022, message: "no" } }, false],
    ["unsupported, and no revisions", { error: { code: -32022, message: "no", data: { supported: [] } } }, false],
    ["unsupported, and text", { error: { code: -32022, message: "no", data: { supported: "2026-07-28" } } }, false],
    [
      "unsupported, and no dates",
      { error: { code: -32022, message: "no", data: { supported: [null, 3, ""] } } },
      false,
    ],
    ["unknown code", { error: { code: 401, message: "no" } }, false],
  ]
  test.each(odd)(
    "initialize decides after a probe that is answered with: %s [protocol:mode:unclean]",
    async (_, said, doubt) => {
      let doubted = false
      const { connection, asked } = connect(({ method }) => (method === "initialize" ? hello : said))
      const ondoubt = () => {
        doubted = true
      }
      expect(await negotiate(connection, { ...options, ondoubt })).toMatchObject({ era: "legacy" })
      expect([asked, doubted]).toEqual([["server/discover", "initialize"], doubt])
    },
  )

  test("a modern server that refuses svc is not asked in the legacy era [protocol:mode:unclean]", async () => {
    const data = { supported: ["2026-07-28"] }
    for (const error of [{ code: -32020 }, { code: -32021 }, { code: -32022, data }]) {
      const { connection, asked } = connect(({ method }) =>
        method === "initialize" ? hello : { error: { ...error, message: "no" } },
      )
      await expect(negotiate(connection, options)).rejects.toThrow("no")
      expect(asked).not.toContain("initialize")
    }
  })

  test("a server that refuses svc's legacy revision is asked once more, with one that it lists", async () => {
    const refusal = (supported: unknown) => ({ error: { code: -32602, message: "no", data: { supported } } })
    const asked: unknown[] = []
    const old = connect(({ method, params }) => {
      if (method !== "initialize") return unknown
      asked.push(params.protocolVersion)
      return params.protocolVersion === "2025-06-18" ? hello : refusal(["2024-10-07", "2025-06-18", "2025-03-26"])
    })
    expect(await negotiate(old.connection, options)).toMatchObject({ protocolVersion: "2025-06-18" })
    expect(asked).toEqual(["2025-11-25", "2025-06-18"])
    const text = "Unsupported protocol version: 2025-11-25 (supported: 2025-03-26, 2024-11-05)"
    const terse = connect(({ method, params }) => {
      if (method !== "initialize") return unknown
      return params.protocolVersion === "2025-03-26" ? hello : { error: { code: -32602, message: text } }
    })
    expect(await negotiate(terse.connection, options)).toMatchObject({ era: "legacy" })
    for (const supported of [undefined, [], ["2099-01-01"], ["2025-11-25"], "2025-06-18"]) {
      const { connection, asked: methods } = connect(({ method }) =>
        method === "initialize" ? refusal(supported) : unknown,
      )
      await expect(negotiate(connection, options)).rejects.toThrow("no")
      expect(methods).toEqual(["server/discover", "initialize"])
    }
  })

  test("a server that refuses the revision but lists it is probed again", async () => {
    const refused = (supported: string[]) => ({ error: { code: -32022, message: "no", data: { supported } } })
    let times = 0
    const again = connect(() => (++times === 1 ? refused(["2026-07-28"]) : discovered))
    expect(await negotiate(again.connection, options)).toMatchObject({ era: "modern" })
    const never = connect(() => refused(["2026-07-28"]))
    await expect(negotiate(never.connection, options)).rejects.toThrow("no")
    expect(never.asked).toHaveLength(2)
    const old = connect(({ method }) => (method === "initialize" ? hello : refused(["2025-06-18"])))
    expect(await negotiate(old.connection, options)).toMatchObject({ era: "legacy" })
  })

  test("a server without a common revision is an error that lists its revisions", async () => {
    const { connection } = connect(() => ({ result: { supportedVersions: ["2099-01-01"], capabilities: {} } }))
    await expect(negotiate(connection, options)).rejects.toThrow("speaks only 2099-01-01")
  })
})

test("refusals and failures are not evidence of an era", () => {
  const verdicts = [401, 403, 407, 408, 429, 500, 502, 503].map((status) => classify(new HttpStatusError(status, "")))
  expect(new Set(verdicts)).toEqual(new Set(["unknown"]))
  expect(classify(new UnauthorizedError("401"))).toBe("unknown")
  expect(classify(new Error("ECONNREFUSED"))).toBe("unknown")
  for (const status of [400, 404, 405, 406]) expect(classify(new HttpStatusError(status, ""))).toBe("legacy")
  for (const code of [-32020, -32021, -32022]) expect(classify(new PeerError(code, ""))).toBe("modern")
  for (const code of [-32601, -32602, -32000]) expect(classify(new PeerError(code, ""))).toBe("legacy")
})

test("a revision is masked before it is cut: no part of a secret is shown", async () => {
  const named = connect(() => ({ result: { protocolVersion: `${"x".repeat(30)}${SECRET}` } }))
  await expect(negotiate(named.connection, { ...options, mode: "legacy" })).rejects.toThrow(/x{30}\[REDACTED\]$/)
  const listed = connect(() => ({ result: { supportedVersions: [`${"x".repeat(190)}${SECRET}`] } }))
  await expect(negotiate(listed.connection, { ...options, mode: "2026-07-28" })).rejects.toThrow(
    /x{190}\[REDACTED\], which/,
  )
})

test("a refusal is told from a failure that may be over at the next attempt [supervise:refused]", () => {
  const refused = [403, 404, 405, 200, 302].map((status) => isRefusal(new HttpStatusError(status, "")))
  expect(refused).toEqual([true, true, true, true, true])
  const failed = [500, 502, 429, 408].map((status) => isRefusal(new HttpStatusError(status, "")))
  expect(failed).toEqual([false, false, false, false])
  expect(isRefusal(new Error("cannot reach a (no such host)"))).toBe(false)
})
