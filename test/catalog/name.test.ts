import { expect, test } from "bun:test"
import fc from "fast-check"
import { qualifyUri, shortened, splitUri } from "../../src/catalog/name.ts"

const slug = fc.stringMatching(/^[A-Za-z0-9-]{1,20}$/)

test("a URI can be read back from its name in the aggregate", () => {
  const uri = fc.oneof(fc.webUrl(), fc.string(), fc.constant("ui://app/page.html"), fc.constant("demo://x/{id}"))
  fc.assert(
    fc.property(slug, uri, (server, original) => {
      expect(splitUri(qualifyUri(server, original))).toEqual({ slug: server, uri: original })
    }),
  )
})

test("an app's resource stays under ui://", () => {
  expect(qualifyUri("web", "ui://app/main")).toBe("ui://web_svc_app/main")
})

test("characters that model APIs refuse are replaced, with a hash of the whole [names:characters]", () => {
  expect(shortened("s_svc_calendar.list", 64)).toMatch(/^s_svc_calendar-list_[0-9a-f]{8}$/)
  expect(shortened("s_svc_calendar.list", 64)).not.toBe(shortened("s_svc_calendar/list", 64))
  expect(shortened("s_svc_calendar-list", 64)).toBe("s_svc_calendar-list")
})

test("a URI that is no name of the aggregate has no backend", () => {
  for (const uri of ["file:///x", "svc://", "svc:///x", "svc://web", "ui://app/main", "ui://_svc_x"])
    expect(splitUri(uri)).toBeUndefined()
})

test("a long name is cut to the limit with a hash of the whole, and depends on nothing else [names:shortened]", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 200 }), fc.integer({ min: 32, max: 128 }), (name, max) => {
      const short = shortened(name, max)
      expect(short.length).toBeLessThanOrEqual(max)
      expect(short === name).toBe(name.length <= max && /^[\w-]*$/.test(name))
      expect(short).toMatch(/^[\w-]*$/)
      expect(shortened(short, max)).toBe(short)
    }),
  )
  const long = "files_svc_".padEnd(80, "x")
  expect(shortened(long, 64)).toMatch(/^files_svc_x{45}_[0-9a-f]{8}$/)
  expect(shortened("a-very-long-server-name-indeed-with-many-words_svc_read_file", 40)).toMatch(
    /^a-very-long-serve_svc_read_file_[0-9a-f]{8}$/,
  )
  expect(shortened(`a-long-server_svc_${"tool".repeat(20)}`, 40)).toMatch(/^a-long-s_svc_(?:tool){4}to_[0-9a-f]{8}$/)
  expect(shortened(`${long}1`, 64)).not.toBe(shortened(`${long}2`, 64))
  expect(shortened(long, Number.POSITIVE_INFINITY)).toBe(long)
})
