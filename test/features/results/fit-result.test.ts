import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createHash, randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ClientCall } from "../../../src/call/ports.ts"
import { fitResult } from "../../../src/features/results/fit-result.ts"
import { type ResultsPort, resultOwner } from "../../../src/features/results/result-budget.ts"
import { ResultIntake, type TakenValues } from "../../../src/features/results/result-intake.ts"
import { ResultSizes } from "../../../src/features/results/result-sizes.ts"
import { ResultStore } from "../../../src/features/results/result-store.ts"
import { StoredAnswer } from "../../../src/features/results/stored-answer.ts"
import { UnavailableError } from "../../../src/lib/errors.ts"
import { textOf } from "../../../src/wire/frame.ts"
import { resultText } from "../../../src/wire/message.ts"
import { fakeClient, fakeExchange, fakeGateway, fakeSpec } from "../../fakes.ts"
import { randomFrom } from "../../random.ts"

const BUDGET = 5000
let folder: string
let store: ResultStore
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "svc-fit-"))
  const clock = { now: () => Date.now(), after: () => () => undefined }
  store = new ResultStore({ folder, clock, key: async () => new Uint8Array(32), ttl: 1e9, capacity: 1e9 })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Block = { type: string; text?: string; uri?: string; _meta?: Record<string, string> }
type Fitted = { content: Block[]; structuredContent?: unknown; isError?: boolean; [member: string]: unknown }

type Stored = ClientCall & { readonly results: ResultsPort }

function callOf(more: Partial<ResultsPort> = {}): Stored {
  const results: ResultsPort = {
    budget: BUDGET,
    sizes: new ResultSizes(),
    store: async () => store,
    replica: undefined,
    warnOnce(text) {
      throw new Error(text)
    },
    ...more,
  }
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "s_svc_t" } } as const
  return {
    request,
    client: fakeClient("legacy", { id: "session" }),
    exchange: fakeExchange(),
    gateway: fakeGateway(),
    results,
  }
}

async function fit(
  result: object,
  call = callOf(),
  taken?: TakenValues,
  frame = resultText(1, JSON.stringify(result)),
): Promise<Fitted> {
  const answer = await fitResult({ frame, outcome: "ok" }, call, call.results, { spec: fakeSpec() }, "t", BUDGET, taken)
  return JSON.parse(textOf(answer.frame)).result
}

/** Fits a result that comes in pieces. */
async function fitStreamed(result: object | string, size: number, call = callOf()): Promise<Fitted> {
  const answer = new StoredAnswer(
    "s",
    BUDGET * 6,
    (encoding) => new ResultIntake(Promise.resolve(store.create(resultOwner(call.client))), encoding),
  )
  const text = typeof result === "string" ? result : JSON.stringify(result)
  const frame = Buffer.from(resultText(1, text))
  for (let at = 0; at < frame.length; at += size) await answer.push(frame.subarray(at, at + size))
  const rest = textOf(answer.end())
  if (typeof result !== "string") expect(rest.length).toBeLessThan(70_000)
  try {
    // As the relay writes it: a member that is repeated is there once.
    return await fit(JSON.parse(text), call, await answer.taken(), JSON.stringify(JSON.parse(rest)))
  } finally {
    await answer.abort()
  }
}

/** The answer without what is new for each one. */
const comparable = (fitted: Fitted): unknown => JSON.parse(JSON.stringify(fitted).replace(/[0-9a-f]{32}\b/g, "ID"))

async function storedText({ uri = "" }: Block, call: ClientCall): Promise<Buffer> {
  const reader = await store.open(uri.slice("svc://results/".length), resultOwner(call.client))
  if (reader === undefined) throw new Error("nothing is stored")
  const bytes = await reader.read(0, reader.about.size)
  await reader.close()
  return bytes
}

const items = Array.from({ length: 20_000 }, (_, id) => ({ id, name: `näme "${id}"\n`, exact: 0.5 }))
const RESULTS: Readonly<Record<string, object>> = {
  text: { content: [{ type: "text", text: 'line "one" \u2028 😀\\\n'.repeat(20_000) }] },
  json: { content: [{ type: "text", text: JSON.stringify({ items }, null, 1) }] },
  image: {
    content: [
      { type: "text", text: "see" },
      { type: "image", data: randomBytes(100_001).toString("base64"), mimeType: "image/png" },
    ],
  },
  resource: {
    content: [
      { type: "resource", resource: { uri: "file:///a", mimeType: "text/x-log", text: "log\n".repeat(50_000) } },
    ],
  },
  "structured content and the same text": {
    content: [{ type: "text", text: JSON.stringify({ items }) }],
    structuredContent: { items },
  },
  "structured content alone": { structuredContent: { items }, content: [], _meta: { a: 1 } },
  error: { isError: true, content: [{ type: "text", text: `failed ${"x".repeat(100_000)}` }] },
  "several texts": { content: [1, 2].map((digit) => ({ type: "text", text: `${digit}`.repeat(90_000) })) },
}

const LONG = JSON.stringify("line one\n".repeat(20_000))
const OTHER = JSON.stringify("line two\n".repeat(30_000))
const TEXT = `{"type":"text","text":${LONG}}`
/** Results as their servers write them. */
const WRITTEN: Readonly<Record<string, string>> = {
  "a text that a short one replaces": `{"content":[{"type":"text","text":${LONG},"text":"short"}]}`,
  "a text that another replaces": `{"content":[{"type":"text","text":${LONG},"text":${OTHER}}]}`,
  "content that other content replaces": `{"content":[${TEXT}],"content":[{"type":"text","text":"short"}]}`,
  "structured content that other content replaces": `{"structuredContent":{"a":${LONG}},"structuredContent":{"a":${OTHER}},"content":[]}`,
  "a text that the placeholder of svc was once": `{"content":[{"type":"text","text":"\ufdd0large value\ufdd1"},${TEXT}]}`,
  "a large member besides the content": `{"content":[${TEXT},{"type":"image","data":"QUJDRA==","mimeType":"image/png"}],"_meta":{"a":${LONG}}}`,
  "a large member behind data and structured content": `{"content":[{"type":"image","mimeType":"i/j","data":"${"QUJD".repeat(40_000)}RA=="}],"structuredContent":{"b":1.0,"a":[${LONG}],"1":2},"more":${OTHER}}`,
  "a question besides the content": `{"content":[${TEXT}],"resultType":"input_required"}`,
  "a block of an unknown type": `{"content":[{"type":"new","text":${LONG}}]}`,
  "a text before its type": `{"content":[{"text":${LONG},"type":"text"}]}`,
  "a member of contents": `{"content":[{"type":"text","text":"a"}],"contents":[{"text":${LONG}}]}`,
  "a member with points in its name": `{"content":[{"type":"text","text":"a"}],"content..text":${LONG}}`,
}

describe("a result above its budget", () => {
  test.each(Object.entries(RESULTS))(
    "of %s is answered below it, the same way whether it comes whole or in pieces",
    async (_, result) => {
      const whole = await fit(result)
      const texts = whole.content.reduce((sum, block) => sum + (block.text ?? JSON.stringify(block)).length, 0)
      expect(texts).toBeLessThanOrEqual(BUDGET)
      expect(whole.content.some(({ type }) => type === "resource_link")).toBe(true)
      for (const size of [777, 65_536]) expect(comparable(await fitStreamed(result, size))).toEqual(comparable(whole))
    },
  )

  test("is stored as the tool sent it", async () => {
    const call = callOf()
    const text = (RESULTS.text as { content: Block[] }).content[0]?.text ?? ""
    for (const { content } of [
      await fit(RESULTS.text ?? {}, call),
      await fitStreamed(RESULTS.text ?? {}, 1000, call),
    ]) {
      const link = content[1] as Block
      const bytes = await storedText(link, call)
      expect(bytes.toString()).toBe(text)
      expect(createHash("sha256").update(bytes).digest("hex")).toBe(link._meta?.["svc/sha256"] as string)
      expect(content[0]?.text).toContain(`\n\n${text.slice(0, 500)}`)
      expect(content[0]?.text).toEndWith(text.slice(-100))
    }
  })

  test("of many blocks keeps the first ones, and all in one text", async () => {
    const call = callOf()
    const blocks = Array.from({ length: 900 }, (_, at) => ({ type: "text", text: `block ${at}` }))
    const { content } = await fit({ content: blocks, structuredContent: { a: items } }, call)
    expect(content[0]?.text).toContain("all 900 content blocks")
    expect(content[1]).toEqual(blocks[0] as Block)
    const stored = JSON.parse((await storedText(content.at(-1) as Block, call)).toString())
    expect(stored).toEqual({ content: blocks, structuredContent: { a: items } })
  })

  test("of many blocks is stored as the tool sent it, whatever has come when svc begins to store [results:stream:same]", async () => {
    const call = callOf()
    for (let seed = 0; seed < 8; seed++) {
      const next = randomFrom(seed)
      const below = (most: number) => Math.floor(next() * most)
      const length = () => [1000, 15_000 + below(4000), 30_000 + below(70_000)][below(60)] ?? below(60)
      const text = () => 'é "😀"\\\n'.repeat(1 + length() / 9)
      const data = () => randomBytes(below(30_000)).toString("base64")
      const block = (at: number): object => {
        if (at % 97 === 1) return { type: "image", data: data(), mimeType: "image/png" }
        return at % 7 === 3
          ? { type: "resource", resource: { uri: `a:${at}`, text: text() } }
          : { type: "text", text: text() }
      }
      const content = Array.from({ length: 150 + below(400) }, (_, at) => block(at))
      const structured = below(3) === 0 ? { structuredContent: { rows: items.slice(0, below(2000)) } } : {}
      const result = below(2) === 0 ? { content, ...structured } : { ...structured, content }
      const whole = await fit(result, call)
      const files = () => readdirSync(folder).length
      for (const size of [4096, 65_536]) {
        const before = files()
        const fitted = await fitStreamed(JSON.stringify(result), size, call)
        expect([seed, files() - before]).toEqual([seed, 1])
        const stored = (await storedText(fitted.content.at(-1) as Block, call)).toString()
        expect([seed, stored === JSON.stringify({ content, ...structured })]).toEqual([seed, true])
        expect([seed, fitted.content[0]?.text?.includes(`all ${content.length} content blocks`)]).toEqual([seed, true])
        const head = (one: Fitted) => one.content[0]?.text?.replace(/[0-9a-f]{32}|of which the first.*follow/g, "")
        expect([seed, head(fitted)?.slice(0, 60)]).toEqual([seed, head(whole)?.slice(0, 60) as string])
      }
    }
  })

  test("never counts twice what it shows of a short value", async () => {
    const call = callOf()
    for (const length of [2000, 9000, 12_000, 16_000, 60_000]) {
      const texts = ["y".repeat(500_000), { a: "x".repeat(length) }] as const
      const frame = resultText(
        1,
        JSON.stringify({ content: [{ type: "text", text: texts[0] }], structuredContent: texts[1] }),
      )
      const answer = await fitResult(
        { frame, outcome: "ok" },
        call,
        call.results,
        { spec: fakeSpec() },
        "t",
        8 * BUDGET,
      )
      const [note, shown = ""] = JSON.parse(textOf(answer.frame)).result.content[2].text.split(/\n\n(.*)/s)
      const whole = JSON.stringify(texts[1])
      const hidden = Number(/(\d+) in the middle are left out/.exec(note)?.[1] ?? 0)
      expect(shown.replace(/\n\n.*\n\n/, "")).toHaveLength(whole.length - hidden)
      if (hidden === 0) expect([note, shown]).toEqual([expect.stringContaining("bytes, which follow. "), whole])
    }
  })

  test("keeps the blocks that are no longer than what it shows of a stored one", async () => {
    for (const length of [1100, 1400]) {
      const short = { type: "text", text: "s".repeat(length) }
      const { content } = await fit({ content: [short, { type: "text", text: "L".repeat(90_000) }, short] })
      expect([content[0], content.at(-1)]).toEqual([short, short])
      expect(content[1]?.text).toContain("[svc stored this text: 90000 bytes, of which 8")
      expect(content).toHaveLength(4)
    }
  })

  test("never shows more than there is room for, whatever its blocks leave", async () => {
    for (let length = 2880; length < 3020; length++) {
      const { content } = await fit({
        content: [1, 2].map((digit) => ({ type: "text", text: `${digit}`.repeat(90_000) })),
        _meta: { rest: "m".repeat(length - 1990) },
      })
      const shown = content.reduce((sum, { text = "" }) => sum + text.length, 0)
      expect(shown).toBeLessThanOrEqual(BUDGET)
    }
  })

  test("of a kind with a very long name says the beginning of it", async () => {
    const data = Buffer.alloc(30_000).toString("base64")
    const fitted = await fit({ content: [{ type: "image", data, mimeType: `image/${"p".repeat(20_000)}` }] })
    expect(JSON.stringify(fitted).length).toBeLessThan(BUDGET)
  })

  test("has no link for a client of a revision without links", async () => {
    const call = callOf()
    const old = { ...call, client: { ...call.client, protocolVersion: "2025-03-26" } }
    const { content } = await fit(RESULTS.text ?? {}, old)
    expect(content).toHaveLength(1)
    expect(content[0]?.text).toMatch(/svc:\/\/results\/[0-9a-f]{32}, SHA-256 [0-9a-f]{64}\]$/)
  })

  test("is unchanged if it fits, if it is a question, and if it cannot be stored", async () => {
    const fitting = { content: [{ type: "text", text: "€".repeat(BUDGET - 100) }] }
    expect(await fit(fitting)).toEqual(fitting as Fitted)
    const question = { resultType: "input_required", inputRequests: { a: "x".repeat(BUDGET * 2) } }
    expect(await fit(question)).toEqual(question as never)
    const warnings: string[] = []
    const results = {
      store: () => Promise.reject(new UnavailableError("the disk is full")),
      warnOnce: (text: string) => void warnings.push(text),
    }
    expect(await fit(RESULTS.json ?? {}, callOf(results))).toEqual(RESULTS.json as Fitted)
    expect(warnings).toEqual(["large results pass whole, because svc cannot store them: the disk is full"])
  })
})

describe("a result above its budget is answered the same way whether it comes whole or in pieces [results:stream:same]", () => {
  test.each(Object.entries(WRITTEN))("with %s", async (_, text) => {
    const call = callOf({ warnOnce: () => undefined })
    const whole = await fit(JSON.parse(text), call)
    const stored = () => readdirSync(folder).filter((name) => name.endsWith(".result")).length
    for (const size of [777, 65_536]) {
      const before = stored()
      expect(comparable(await fitStreamed(text, size, call))).toEqual(comparable(whole))
      // What passes whole leaves nothing in the store.
      if (JSON.stringify(whole).length > 3 * BUDGET) expect(stored()).toBe(before)
    }
  })

  test("unless it changes what svc has stored of it: then it fails, and shows no placeholder", async () => {
    const text = `{"content":[{"type":"text","text":${LONG},"type":"new"}]}`
    await expect(fitStreamed(text, 65_536)).rejects.toThrow("contradicts itself at its end")
  })
})

test("a result that cannot be stored while it comes fails with the reason, which is logged", async () => {
  const failures: unknown[] = []
  const failing = Promise.reject(new UnavailableError("cannot write: the disk is full"))
  failing.catch(() => undefined)
  const answer = new StoredAnswer(
    "s",
    1000,
    (encoding) => new ResultIntake(failing, encoding),
    (error) => void failures.push(error),
  )
  const frame = Buffer.from(resultText(1, JSON.stringify({ content: [{ type: "text", text: "x".repeat(200_000) }] })))
  await answer.push(frame.subarray(0, 100_000))
  await answer.push(frame.subarray(100_000))
  answer.end()
  await expect(answer.taken()).rejects.toThrow("cannot write: the disk is full; ask for less of it")
  expect(failures).toHaveLength(1)
})

test("an answer that ends before it is too large in any case is whole", async () => {
  const answer = new StoredAnswer("s", 1000, () => {
    throw new Error("stores nothing")
  })
  const frame = Buffer.from(resultText(1, JSON.stringify({ content: [{ type: "text", text: "x".repeat(900) }] })))
  await answer.push(frame.subarray(0, 500))
  await answer.push(frame.subarray(500))
  expect(Buffer.from(answer.end())).toEqual(frame)
  expect(await answer.taken()).toBeUndefined()
})
