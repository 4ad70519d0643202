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

/** The paths of a configuration in a directory. */
const pathsIn = (directory: string, config?: string) =>
  pathsOf({ config, directory, platform: "linux", home: directory, appData: undefined, cwd: directory })

test("a listing is read back for the same launch alone, and a damaged file counts as none [sleep:stored]", () => {
  const directory = mkdtempSync(join(tmpdir(), "svc-listings-"))
  const paths = pathsIn(directory)
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

test("listings are kept by the names of servers, those of instances with their template, and each mcp.json has its own [sleep:removed]", () => {
  const directory = mkdtempSync(join(tmpdir(), "svc-listings-"))
  const store = openListings(pathsIn(directory))
  const other = openListings(pathsIn(directory, join(directory, "other.json")))
  // There is no folder yet.
  store.keep(new Set())
  const spec = fakeSpec()
  const specs = [
    spec,
    { ...spec, name: "b", id: "b" },
    { ...spec, name: "t", id: "t#1" },
    { ...spec, name: "t", id: "t#2" },
  ]
  for (const one of specs) {
    store.write(one, listing)
    other.write(one, listing)
  }
  const kept = (from: typeof store) => specs.flatMap((one) => (from.read(one) === undefined ? [] : [one.id]))
  store.keep(new Set(["t", "z"]))
  expect(kept(store)).toEqual(["t#1", "t#2"])
  expect(kept(other)).toHaveLength(4)
  store.keep(new Set())
  expect(kept(store)).toEqual([])
})
