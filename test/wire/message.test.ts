import { expect, test } from "bun:test"
import { paramHeaders } from "../../src/wire/headers.ts"
import { asText, idAtEdges, idOfText, parseJson, resultText } from "../../src/wire/message.ts"
import { ODD_NUMBERS } from "../numbers.ts"

test("the id of a message too large to keep is read as written", () => {
  for (const id of [...ODD_NUMBERS, '"1.0"'])
    for (const edges of [`{"jsonrpc":"2.0","id":${id},"method":"x","par`, `aaa"},"id": ${id} ,"jsonrpc":"2.0"}`])
      expect(resultText(idAtEdges(edges) ?? "", "{}")).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`)
})

test("the id of a message too large to keep is found at the edges of the top-level object only", () => {
  const cut = 'aaaa…aaaa"}'
  for (const [edges, id] of [
    [`{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"${cut}}}`, 7],
    [`{ "id" : "a-1" , "jsonrpc": "2.0", "params":{"a":"${cut}}`, "a-1"],
    [`{"method":"x","params":{"a":"${cut},"jsonrpc":"2.0","id":0}`, 0],
    [`{"method":"x","params":{"a":"${cut},"id":-3,"jsonrpc":"2.0"}\r`, -3],
    [`{"method":"x","params":{"a":"aaa","id":5}}`, undefined],
    [`{"jsonrpc":"2.0","method":"x","params":{"id":5,"a":"aaa"}}`, undefined],
    [`[{"method":"x","jsonrpc":"2.0","id":5}]`, undefined],
    [`{"method":"x","params":{"a":"aaa,\\"id\\":5}"}}`, undefined],
    [`{"jsonrpc":"2.0","id":01,"method":"x"`, undefined],
    ["", undefined],
  ] as const)
    expect(idAtEdges(edges)).toBe(id as never)
})

test("any value of a peer can become text, whatever its members", () => {
  const odd = JSON.parse('{"toString":1,"valueOf":1}')
  expect([undefined, null, 1, "a", [odd], odd].map(asText)).toEqual([
    "undefined",
    "null",
    "1",
    "a",
    `[${JSON.stringify(odd)}]`,
    JSON.stringify(odd),
  ])
  expect(paramHeaders({ a: odd }, [{ header: "x-a", path: ["a"] }])).toEqual({ "x-a": JSON.stringify(odd) })
})

test("a text that is too deep or has too many values is refused in linear time, and its id is found", () => {
  const call = (args: string) => `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"arguments":${args}}}`
  const deep = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
  for (const [args, why] of [
    [deep(1_000_000), "deeper than 512"],
    [deep(511), "deeper than 512"],
    ["[".repeat(2_000_000), "deeper than 512"],
    [`[${"{},".repeat(300_000)}1]`, "more than 500000 values"],
    [`[${"1.0,".repeat(110_000)}1]`, "more than 100000 values"],
  ] as const) {
    expect(() => parseJson(call(args))).toThrow(why)
    expect(idOfText(call(args))).toBe(7)
  }
  const text = JSON.stringify(`\\"${"[{,".repeat(500_000)}`)
  for (const args of [deep(510), `[${"1,".repeat(490_000)}1]`, `[${"1.0,".repeat(90_000)}1]`, text])
    expect(parseJson(call(args))).toBeObject()
  expect(() => parseJson(`"${'\\"'.repeat(1_000_000)}`)).toThrow("not valid JSON")
})
