import { expect, test } from "bun:test"
import { paramHeaders } from "../../src/wire/headers.ts"
import { asText, idAtEdges, resultText } from "../../src/wire/message.ts"
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
