import { describe, expect, test } from "bun:test"
import {
  errorAnswer,
  failureAnswer,
  RelayedResult,
  refusalAnswer,
  resultAnswer,
  sharedAnswer,
  tailOf,
} from "../../src/call/answer.ts"
import { BackendError, RequestError } from "../../src/lib/errors.ts"
import { encode, textOf } from "../../src/wire/frame.ts"

const bugs: unknown[] = []
const masked = { hide: (text: string) => text.replace("s3cret", "***"), onbug: (bug: unknown) => void bugs.push(bug) }
const relayed = (result: string) => new RelayedResult(encode(`{"jsonrpc":"2.0","id":1,"result":${result}}`))

describe("a relayed result", () => {
  test("is a tool error if it says isError: true, with or without spaces", () => {
    for (const spelled of ['"isError":true', '"isError": true', '"isError" : true', '"isError":\n true'])
      expect(relayed(`{"content":[],${spelled}}`).outcome).toBe("tool_error")
  })

  test("is ok if it says isError: false, does not mention isError, or contains it only inside a text", () => {
    for (const result of ['{"isError":false}', "{}", '{"isError":"true"}', '{"text":"\\"isError\\":true"}'])
      expect(relayed(result).outcome).toBe("ok")
  })

  test("is searched only when the outcome is read, and only once", () => {
    const answer = relayed('{"isError":true}')
    expect(answer.outcome).toBe("tool_error")
    answer.frame.fill(0)
    expect(answer.outcome).toBe("tool_error")
  })
})

describe("an answer with a shared tail", () => {
  const small = JSON.stringify({ tools: ["é"] })
  const large = JSON.stringify({ tools: ["é".repeat(50_000)] })
  const partsOf = () => {
    const parts: (Uint8Array | string)[] = []
    const ends: number[] = []
    const body = {
      write: (part: Uint8Array | string) => void parts.push(part),
      end: () => void ends.push(parts.length),
    }
    return { openBody: () => body, text: () => (ends.length === 1 ? parts.map(textOf).join("") : undefined), parts }
  }

  test("is sent in parts if it is large, and never copied", () => {
    const exchange = partsOf()
    const tail = tailOf(large)
    const answer = sharedAnswer("é", tail, exchange)
    expect(exchange.text()).toBe(`{"jsonrpc":"2.0","id":"é","result":${large}}`)
    expect(exchange.parts).toContain(tail)
    expect(answer).toEqual({ frame: "", sent: Buffer.byteLength(exchange.text() ?? ""), outcome: "ok" })
  })

  test("is sent whole if it is small, or if its client does not accept parts", () => {
    for (const [result, exchange] of [
      [small, partsOf()],
      [large, {}],
      [large, { openBody: () => undefined }],
    ] as const)
      expect(textOf(sharedAnswer(7, tailOf(result), exchange).frame)).toBe(
        `{"jsonrpc":"2.0","id":7,"result":${result}}`,
      )
  })
})

describe("an error", () => {
  test("has the code of its frame, as the backend wrote it", () => {
    expect(errorAnswer(1, -32601, "no")).toMatchObject({ outcome: "error", code: -32601 })
    expect(refusalAnswer(1, "invalid_params", "no")).toMatchObject({ outcome: "error", code: -32602 })
    expect(refusalAnswer(1, "unknown_method", "no").frame).toBe(
      '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}',
    )
  })

  test("says when to try again only if svc's own rate limit refused the call", () => {
    const limited = new RequestError("too_many", "Too many calls; try again in 3 s", { retryAfter: 3 })
    expect(failureAnswer(1, limited, masked).retryAfter).toBe(3)
    expect(failureAnswer(1, new RequestError("too_many", "full"), masked).retryAfter).toBeUndefined()
    expect(errorAnswer(1, -32600, limited.message, limited.data).retryAfter).toBeUndefined()
  })

  test("masks secrets, and reports a bug of svc without its message", () => {
    expect(failureAnswer(1, new BackendError("s", "s3cret"), masked).frame).toContain("s: ***")
    expect(bugs).toEqual([])
    const bug = new TypeError("s3cret")
    expect(String(failureAnswer(1, bug, masked).frame)).toContain('"internal error"')
    expect(bugs).toEqual([bug])
  })
})

test("a result of svc's own is ok", () => {
  expect(resultAnswer("a", "{}")).toEqual({ frame: '{"jsonrpc":"2.0","id":"a","result":{}}', outcome: "ok" })
})
