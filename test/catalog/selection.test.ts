import { describe, expect, test } from "bun:test"
import { readQuery, type ServerQuery, selectServers } from "../../src/catalog/selection.ts"
import { parseDocument } from "../../src/config/document.ts"
import { readPresets } from "../../src/config/presets.ts"
import { RequestError } from "../../src/lib/errors.ts"

const presetsOf = (filter: string) =>
  readPresets(parseDocument(JSON.stringify({ presets: { dev: { filter } } }), "presets.json")).presets
const PRESETS = presetsOf("web or db")

const SERVERS = { web: ["web"], db: ["db", "slow"], both: ["web", "db"], bare: [] }
const seen = (...queries: ServerQuery[]) => {
  const selection = selectServers(queries, PRESETS)
  return Object.entries(SERVERS).flatMap(([name, tags]) => (selection.includes(tags) ? [name] : []))
}

const query = (text: string) => readQuery(new URLSearchParams(text))

describe("a selection", () => {
  test("includes every server if there is no query", () => {
    expect(seen()).toEqual(["web", "db", "both", "bare"])
    expect(seen(query("app=x"))).toEqual(["web", "db", "both", "bare"])
    expect(selectServers([], PRESETS).key).toBe("")
  })

  test("of tags includes servers with any of them", () => {
    expect(seen(query("tags=db,web"))).toEqual(["web", "db", "both"])
    expect(seen(query("tags=slow"))).toEqual(["db"])
  })

  test("of an expression includes the servers that match it", () => {
    expect(seen(query("tag-filter=db+and+not+slow"))).toEqual(["both"])
    expect(seen(query("tag-filter=not%20(web%7Cdb)"))).toEqual(["bare"])
  })

  test("of a preset follows the preset's current filter", () => {
    expect(seen(query("preset=dev"))).toEqual(["web", "db", "both"])
    expect(selectServers([query("preset=dev")], presetsOf("slow")).includes(["web"])).toBe(false)
  })

  test("of several queries includes the servers that match all of them", () => {
    expect(seen(query("preset=dev&tags=web&tag-filter=db"))).toEqual(["both"])
    expect(seen({ filter: "web" }, { tags: ["db"] })).toEqual(["both"])
  })

  test("has the same key for every spelling of its tags", () => {
    const key = (text: string) => selectServers([query(text)], PRESETS).key
    expect(key("tags=b,%20a,b")).toBe(key("tags=a,b"))
    expect(key("tags=a,b")).toBe(key("tag-filter=a+or+b"))
    expect(key("tags=a")).not.toBe(key("tags=b"))
  })

  test("names its tags, for a warning", () => {
    expect(selectServers([query("tags=a&tag-filter=not+b")], PRESETS).tags).toEqual(["a", "b"])
  })

  test.each([
    ["tags=", "tags= is empty; leave it out to select everything"],
    ["tags=a&tags=b", "tags= occurs 2 times; write it once"],
    ["tools=all&tools=search", "tools= occurs 2 times; write it once"],
    ["tags=,", "tags= names no tag; write tags=a,b, or leave it out to select everything"],
    ["tag-filter=a+and", 'tag-filter is invalid at column 6: expected a tag, "not" or "(", found the end'],
    ["preset=de", "no preset is named de; did you mean dev?"],
  ])("%s is refused", (text, message) => {
    expect(() => selectServers([query(text)], PRESETS)).toThrow(new RequestError("invalid_params", message))
  })
})
