import { expect, test } from "bun:test"
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isListing, type Listing } from "../../src/catalog/listing.ts"
import { openListings } from "../../src/store/listings.ts"
import { pathsOf } from "../../src/store/paths.ts"
import { fakePeer, fakeSpec } from "../fakes.ts"

const listing: Listing = {
  ...fakePeer("legacy"),
  tools: [{ name: "x" }],
  prompts: [],
  resources: [],
  resourceTemplates: [],
}

test("a listing is read back for the same launch alone, and a damaged file counts as none [sleep:stored]", () => {
  const directory = mkdtempSync(join(tmpdir(), "svc-listings-"))
  const paths = pathsOf({
    config: undefined,
    directory,
    platform: "linux",
    home: directory,
    appData: undefined,
    cwd: directory,
  })
  const spec = fakeSpec()
  const store = openListings(paths)
  expect(store.read(spec)).toBeUndefined()
  store.write(spec, listing)
  expect(openListings(paths).read(spec)).toEqual(JSON.parse(JSON.stringify(listing)))
  expect(store.read({ ...spec, launch: { ...spec.launch, mode: "legacy" } as never })).toBeUndefined()
  const folder = join(directory, "listings")
  const [file = ""] = readdirSync(folder)
  for (const damaged of ["", "{", "[]", JSON.stringify({ launch: "x" })]) {
    writeFileSync(join(folder, file), damaged)
    expect(store.read(spec)).toBeUndefined()
  }
  // Somebody has changed it: its entries may have any shape.
  store.write(spec, listing)
  const text = readFileSync(join(folder, file), "utf8")
  expect(store.read(spec)).toBeDefined()
  writeFileSync(join(folder, file), text.replace('"resources":[', '"resources":[{},'))
  expect(store.read(spec)).toBeUndefined()
  for (const wrong of [undefined, [], { ...listing, tools: 1 }, { ...listing, tools: [1] }, { ...listing, era: "x" }])
    expect(isListing(wrong)).toBe(false)
  expect(isListing(listing)).toBe(true)
})
