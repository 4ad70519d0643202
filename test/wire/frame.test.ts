import { expect, test } from "bun:test"
import fc from "fast-check"
import {
  createRequestIds,
  decode,
  encode,
  isValidResponse,
  messagesIn,
  parseFrame,
  repeatsMember,
  resultIn,
  unfilledFrame,
  withResponseId,
} from "../../src/wire/frame.ts"

const ids = createRequestIds("Rand0m")
const id = (number: number) => ids.text(number)

/** What the slow path gives: parse, change, write. */
function slow(text: string, to: unknown, members: Record<string, unknown>): unknown {
  const message = JSON.parse(text)
  return { ...message, id: to, result: { ...members, ...message.result } }
}

function fast(text: string, to: unknown, members?: string): unknown {
  const frame = encode(text)
  const answer = ids.matchResponse(frame)
  if (answer === undefined) return undefined
  const out = withResponseId(
    frame,
    answer,
    encode(JSON.stringify(to)),
    members === undefined ? undefined : encode(members),
  )
  return { number: answer.number, message: JSON.parse(decode(out)) }
}

const result = fc.dictionary(fc.string(), fc.jsonValue())
const number = fc.integer({ min: 1, max: 999_999_999 })
const clientId = fc.oneof(fc.integer(), fc.string())

test("an id at the head is replaced and all else is kept", () => {
  fc.assert(
    fc.property(result, number, clientId, (value, n, to) => {
      const text = `{"jsonrpc":"2.0","id":"${id(n)}","result":${JSON.stringify(value)}}`
      expect(fast(text, to)).toEqual({ number: n, message: slow(text, to, {}) })
    }),
  )
})

test("an id at the tail is replaced and all else is kept", () => {
  fc.assert(
    fc.property(result, number, clientId, fc.boolean(), (value, n, to, versionFirst) => {
      const body = `"result":${JSON.stringify(value)}`
      const head = versionFirst ? `"jsonrpc":"2.0",${body}` : `${body},"jsonrpc":"2.0"`
      const text = `{${head},"id":"${id(n)}"}`
      expect(fast(text, to)).toEqual({ number: n, message: slow(text, to, {}) })
    }),
  )
})

test("members are inserted first in the result, even if it is empty", () => {
  fc.assert(
    fc.property(result, number, fc.boolean(), (value, n, tail) => {
      const { resultType: _, ...rest } = value
      const body = JSON.stringify(rest)
      const text = tail
        ? `{"result":${body},"jsonrpc":"2.0","id":"${id(n)}"}`
        : `{"jsonrpc":"2.0","id":"${id(n)}","result":${body}}`
      const members = '"resultType":"complete"'
      expect(fast(text, 7, members)).toEqual({ number: n, message: slow(text, 7, { resultType: "complete" }) })
    }),
  )
})

test("ids that only resemble svc's, or are nested deeper, take the slow path", () => {
  const ours = id(5)
  for (const text of [
    `{"jsonrpc":"2.0","id":5,"result":{}}`,
    `{"jsonrpc":"2.0","id":"${ours}x","result":{}}`,
    `{"jsonrpc":"2.0","id":"x${ours}","result":{}}`,
    `{"jsonrpc":"2.0","id":"${ids.text(0).slice(0, -1)}","result":{}}`,
    `{"jsonrpc":"2.0","id":"${ours}","error":{"code":1,"message":"no"}}`,
    `{"jsonrpc":"2.0","id":"${ours}","result":null}`,
    `{"jsonrpc":"2.0","result":{"a":{"x":1,"id":"${ours}"}},"id":3}`,
    `{"jsonrpc":"2.0","method":"m","params":{"x":1,"id":"${ours}"}}`,
    `{"jsonrpc":"2.0","result":{"text":"a,\\"id\\":\\"${ours}\\"}"}}`,
    `{"id":"${ours}","jsonrpc":"2.0","result":{}}`,
    `{ "jsonrpc": "2.0", "id": "${ours}", "result": {} }`,
    `{"jsonrpc":"2.0","id":"${ours}","result":{"content":[`,
    "",
    "}",
    `"}`,
    `,"id":"${ours}"}`,
  ])
    expect(ids.matchResponse(encode(text))).toBeUndefined()
})

test("a frame that is more than one response, or no JSON, takes the slow path", () => {
  const ours = `"id":"${id(5)}"`
  const deep = "[".repeat(600) + "]".repeat(600)
  for (const body of [
    "{},",
    '{},"id":1',
    '{},"\\u0069d":1',
    `{},${ours}`,
    '{},"result":{}',
    '{},"error":{"code":1,"message":"x"}',
    '{},"method":"ping"',
    '{},"params":{}',
    '{},"extra":{}',
    '{}},{"a":{}',
    "{}{}",
    "{}x",
    "{} ",
    "{ nope }",
    '{"a":1,}',
    '{"a":"\t"}',
    '{"a":"\u0000"}',
    '{"a":"\\x"}',
    `{"a":${deep}}`,
  ])
    for (const text of [
      `{"jsonrpc":"2.0",${ours},"result":${body}}`,
      `{"jsonrpc":"2.0","result":${body},${ours}}`,
      `{"result":${body},"jsonrpc":"2.0",${ours}}`,
    ])
      expect([text, ids.matchResponse(encode(text))]).toEqual([text, undefined])
  for (const text of [
    `{"result":{},${ours}}`,
    `{"result":{},"jsonrpc":"1.0",${ours}}`,
    `{"jsonrpc":"2.0","result":{},"jsonrpc":"2.0",${ours}}`,
    `{"jsonrpc":"2.0","id":"${id(0)}5","result":{}}`,
    `{"jsonrpc":"2.0","result":{},"id":"${id(0)}5"}`,
    `{"jsonrpc":"2.0","id":"${id(1)}${"0".repeat(20)}","result":{}}`,
    `{"jsonrpc":"2.0","result":{},"id":"${id(1)}${"0".repeat(20)}"}`,
    `\ufeff{"jsonrpc":"2.0",${ours},"result":{}}`,
    `{"jsonrpc":"2.0",${ours},"result":{}}{"jsonrpc":"2.0",${ours},"result":{}}`,
  ])
    expect([text, ids.matchResponse(encode(text))]).toEqual([text, undefined])
})

test("a repeated member of the envelope is found in any spelling, and no other member", () => {
  for (const [text, repeats] of [
    ['{"id":1,"result":{},"id":2}', true],
    ['{"id":1,"result":{},"\\u0069\\u0064":2}', true],
    ['\ufeff \n{"result":{},"result":{}}', true],
    ['{"jsonrpc":"2.0","method":"a","params":{},"params":{}}', true],
    ['{"jsonrpc":"2.0","id":1,"result":{"id":1,"id":2,"result":{"result":1,"result":2}}}', false],
    ['{"extra":1,"extra":2,"id":"id"}', false],
    ['["id","id"]', false],
    ["7", false],
  ] as const)
    expect([text, repeatsMember(encode(text))]).toEqual([text, repeats])
})

test("the result of a response keeps its bytes, wherever it stands and however its name is written", () => {
  fc.assert(
    fc.property(
      fc.json({ maxDepth: 4 }),
      fc.dictionary(fc.string({ minLength: 1 }), fc.jsonValue()),
      fc.constantFrom('"result"', '"\\u0072esult"'),
      fc.constantFrom("", " ", "\n\t"),
      (result, others, name, space) => {
        delete others.result
        const members = Object.entries(others).map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
        for (let at = 0; at <= members.length; at++) {
          const written = members.toSpliced(at, 0, `${name}${space}:${space}${result}${space}`)
          const found = resultIn(encode(`${space}{${space}${written.join(`,${space}`)}}`))
          expect(found && decode(found)).toBe(result)
        }
      },
    ),
  )
  expect(resultIn('{"jsonrpc":"2.0","id":1,"error":{"code":1,"result":{}}}')).toBeUndefined()
})

test("the messages of a batch keep their bytes", () => {
  const frame = encode('\ufeff [ {"id":1,"a":"],["} ,7,[{}]\n] ')
  expect(messagesIn(frame).map(decode)).toEqual(['{"id":1,"a":"],["}', "7", "[{}]"])
  expect(messagesIn(encode('{"id":1}')).map(decode)).toEqual(['{"id":1}'])
  expect(messagesIn(encode("[]"))).toEqual([])
  expect(() => messagesIn(encode('[{"id":1},'))).toThrow("not JSON")
  expect(messagesIn(encode(`[${"7,".repeat(999)}7]`))).toHaveLength(1000)
  expect(() => messagesIn(encode(`[${"7,".repeat(1000)}7]`))).toThrow("more than 1000 messages")
})

test("no bytes make the parser throw", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      expect(ids.matchResponse(bytes)).toBeUndefined()
    }),
  )
})

test("only ids of svc's own are parsed", () => {
  expect(ids.parse(id(42))).toBe(42)
  for (const other of [42, null, "42", `${id(4)} `, id(4).replace("svc", "SVC"), `${ids.text(0)}`, `${id(1)}e3`])
    expect(ids.parse(other)).toBeUndefined()
})

test("the depth is that of the value: brackets in strings do not count", () => {
  const depthOf = (value: unknown): number =>
    typeof value !== "object" || value === null ? 0 : 1 + Math.max(0, ...Object.values(value).map(depthOf))
  fc.assert(
    fc.property(fc.jsonValue(), fc.string({ unit: fc.constantFrom("[", "{", '"', "\\", "]", "a") }), (value, text) => {
      // As deep as may be, but for the value in the middle.
      const around = 512 - depthOf(value)
      const json = JSON.stringify([text, value]).slice(1, -1)
      const nested = (levels: number) => encode("[".repeat(levels) + json + "]".repeat(levels))
      expect(parseFrame(nested(around))).toBeArray()
      expect(() => parseFrame(nested(around + 1))).toThrow("deeper than 512 levels")
    }),
  )
})

test("a malformed frame has an error without its text", () => {
  expect(parseFrame(encode('{"a":[1]}'))).toEqual({ a: [1] })
  expect(() => parseFrame(encode('{"secret":'))).toThrow(/^sent a message that is not JSON$/)
  expect(() => parseFrame(encode("[".repeat(200_000) + "]".repeat(200_000)))).toThrow("deeper than 512 levels")
})

test("the text of an id is its prefix and its number, in any order of numbers", () => {
  const ids = createRequestIds("abc")
  for (const number of [1, 9, 10, 11, 99, 100, 7, 101, 999_999_999_999_999, 1_000_000, 1])
    expect([ids.text(number), ids.parse(ids.text(number))]).toEqual([`svcabc.${number}`, number])
})

/** A large result: only its end is found. */
const LARGE = `{"content":[{"type":"text","text":"${"x".repeat(100_000)}"}]`

test("in a large frame, no member fits between the result and the end, and what is within is not checked [frame:large]", () => {
  const match = (text: string) => {
    const frame = encode(text)
    const answer = ids.matchResponse(frame)
    return answer && { number: answer.number, checked: answer.isChecked, valid: isValidResponse(frame, answer) }
  }
  const first = (result: string, after = "") => `{"jsonrpc":"2.0","id":"${id(7)}","result":${result}${after}}`
  const last = (result: string, after = "") => `{"result":${result}${after},"jsonrpc":"2.0","id":"${id(7)}"}`
  for (const frame of [first, last]) {
    expect(match(frame("{}"))).toEqual({ number: 7, checked: true, valid: true })
    expect(match(frame(`${LARGE}}`))).toEqual({ number: 7, checked: false, valid: true })
    expect(match(frame(`${LARGE},"a" 1}`))).toEqual({ number: 7, checked: false, valid: false })
    for (const after of [
      ',"id":8',
      ',"method":"sampling/createMessage","params":{}',
      ',"\\u0069d":8',
      ',"x":{}',
      "}{",
      " ",
    ])
      if (after !== " ") expect([after, match(frame(`${LARGE}}`, after))]).toEqual([after, undefined])
    expect(match(frame(`${LARGE},"a":"\n"}`))).toBeUndefined()
    expect(match(frame(`${LARGE},"a":${"[".repeat(600)}${"]".repeat(600)}}`))).toBeUndefined()
  }
})

test("members are inserted into a frame with room as into any other [frame:large]", () => {
  const roomy = (text: string) => {
    const bytes = encode(text)
    const frame = unfilledFrame(bytes.length)
    frame.set(bytes)
    return frame
  }
  const members = encode('"resultType":"complete"')
  for (const result of ["{}", "{ }", '{"a":1}', `${LARGE}}`])
    for (const text of [
      `{"jsonrpc":"2.0","id":"${id(42)}","result":${result}}`,
      `{"jsonrpc":"2.0","result":${result},"id":"${id(42)}"}`,
      `{"result":${result},"jsonrpc":"2.0","id":"${id(42)}"}`,
    ])
      for (const to of ['"a"', "7", `"${"long".repeat(30)}"`]) {
        const [plain, frame] = [encode(text), roomy(text)]
        const answer = ids.matchResponse(frame)
        if (answer === undefined) throw new Error("not matched")
        const expected = decode(withResponseId(plain, answer, encode(to), members))
        const out = withResponseId(frame, answer, encode(to), members)
        expect(decode(out)).toBe(expected)
      }
})
