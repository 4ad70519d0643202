import { describe, expect, test } from "bun:test"
import { keysIn } from "../../src/config/found-keys.ts"
import type { Params } from "../../src/wire/message.ts"
import { HARMLESS, HARMLESS_ARGS, KEYS } from "../fixtures/keys.ts"

/** Returns the keys of a server, as texts. */
const texts = (server: Params): readonly string[] =>
  keysIn(server).map(({ path: [section = "", member], start, end }) => {
    const value = server[section] as string & Readonly<Record<string, string>>
    return (member === undefined ? value : String(value[member])).slice(start, end)
  })

describe("what looks like a key", () => {
  test.each(KEYS)("is found: %j", (server, key) => {
    expect(texts(server)).toEqual([key])
  })

  test("is not a word of a command that a reference runs", () => {
    expect(texts({ args: ["--header", "Authorization: Bearer ${cmd:sh -c 'echo }' --token abc123xyz9}"] })).toEqual([])
  })

  test("is found in a long text with its name", () => {
    const found = keysIn({ url: `${"x".repeat(1000)} --token=Canary-0123456789 ` })
    expect(found.map(({ name }) => name)).toEqual(["token"])
  })

  test("is found in an address under the names of other applications, too", () => {
    for (const name of ["url", "serverUrl", "httpUrl"])
      expect(texts({ [name]: "https://h.example/mcp?api_key=Canary-01" })).toEqual(["Canary-01"])
  })

  test.each(HARMLESS)("stays: %j", (server) => {
    expect(texts(server)).toEqual([])
  })

  test.each(HARMLESS_ARGS.map((args) => [{ command: "npx", args }]))("stays in arguments: %j", (server) => {
    expect(texts(server)).toEqual([])
  })
})
