import { expect, test } from "bun:test"
import fc from "fast-check"
import { qualifyUri, splitUri } from "../../src/catalog/name.ts"

const slug = fc.stringMatching(/^[A-Za-z0-9.-]{1,20}$/)

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

test("a URI that is no name of the aggregate has no backend", () => {
  for (const uri of ["file:///x", "svc://", "svc:///x", "svc://web", "ui://app/main", "ui://_svc_x"])
    expect(splitUri(uri)).toBeUndefined()
})
