import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { type RegistryEntry, readEntry } from "../../../src/features/registry/entry.ts"
import { rank } from "../../../src/features/registry/search.ts"

const entry = (name: string, description = ""): RegistryEntry =>
  readEntry({ name, description, version: "1" }, "ours") ?? expect.unreachable()

const ENTRIES = [
  entry("io.github.a/issues", "Open and close tickets"),
  entry("io.github.b/tickets", "Keeps a list of issues"),
  entry("io.github.c/createIssue", "Makes one"),
  entry("io.github.d/files", "Read the complete contents of a file"),
  entry("io.github.e/mcp-server", "An MCP server for mail"),
]
const found = (query: string) => rank(ENTRIES, query).map(({ name }) => name.split("/")[1])

describe("ranking", () => {
  test("counts a name more than a description", () => {
    expect(found("issues")[0]).toBe("issues")
    expect(found("issues")).toContain("tickets")
  })

  test("puts the exact name first, with its owner or without", () => {
    for (const { name } of ENTRIES) {
      expect(rank(ENTRIES, name.toUpperCase())[0]?.name).toBe(name)
      expect(rank(ENTRIES, name.split("/")[1] ?? "")[0]?.name).toBe(name)
    }
  })

  test("finds words of camel-case names, prefixes and misspellings", () => {
    expect(found("createissue")).toContain("createIssue")
    expect(found("issue")).toContain("createIssue")
    expect(found("ticke")).toContain("tickets")
    expect(found("contnets")).toEqual(["files"])
  })

  test("ignores common words if there are others", () => {
    expect(found("mcp server for files")).toEqual(["files"])
    expect(found("mcp server")).toContain("mcp-server")
  })

  test("finds nothing for an empty query", () => {
    expect(found("  ( ")).toEqual([])
    expect(rank([], "file")).toEqual([])
  })

  test("does not depend on the order of the entries", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(ENTRIES, { minLength: ENTRIES.length }), (shuffled) => {
        for (const query of ["issue", "files", "tickets create", "read a file"])
          expect(rank(shuffled, query)).toEqual([...rank(ENTRIES, query)])
      }),
      { numRuns: 20 },
    )
  })
})
