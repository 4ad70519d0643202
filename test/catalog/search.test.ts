import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { indexTools, searchTools } from "../../src/catalog/search.ts"

const TOOLS = [
  { name: "github_svc_create_issue", description: "Open a new issue in a repository" },
  { name: "github_svc_list_issues", description: "List issues of a repository" },
  { name: "linear_svc_createIssue", description: "Make a ticket" },
  { name: "fs_svc_read_file", description: "Read the complete contents of a file" },
  { name: "fs_svc_write_file", description: "Create a file or overwrite it" },
  { name: "mail_svc_send" },
]
const found = (query: string, limit = 10) => searchTools(TOOLS, query, limit).map(({ name }) => name)

describe("searching tools", () => {
  test("a name counts more than a description", () => {
    expect(found("create")[0]).not.toBe("fs_svc_write_file")
    expect(found("create")).toContain("fs_svc_write_file")
    expect(found("issue").slice(0, 2).sort()).toEqual(["github_svc_create_issue", "linear_svc_createIssue"])
  })

  test("the exact name comes first", () => {
    for (const { name } of TOOLS) expect(found(name.toUpperCase())[0]).toBe(name)
  })

  test("finds words of names in camel case, beginnings and slips", () => {
    expect(found("createissue")).toContain("linear_svc_createIssue")
    expect(found("repo")).toContain("github_svc_list_issues")
    expect(found("contnets")).toEqual(["fs_svc_read_file"])
  })

  test("gives at most the limit, and nothing for nothing", () => {
    expect(found("file", 1)).toHaveLength(1)
    expect(found("file", 0)).toEqual([])
    expect(found("", 5)).toEqual([])
    expect(found("  ( ", 5)).toEqual([])
    expect(searchTools([], "file", 5)).toEqual([])
  })

  test("does not depend on the order of the entries", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(TOOLS, { minLength: TOOLS.length }), (shuffled) => {
        const search = indexTools(shuffled)
        for (const query of ["issue", "file", "svc create", "read a file"])
          expect(search(query, 10).map(({ name }) => name)).toEqual(found(query))
      }),
      { numRuns: 20 },
    )
  })
})
