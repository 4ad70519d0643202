import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import type { Tool } from "../../../src/catalog/listing.ts"
import {
  createSearchIndex,
  removeListing,
  type SearchIndex,
  search,
  updateListing,
} from "../../../src/features/search/ranking.ts"
import { recordedServers } from "../../bench/search/golden.ts"

const tool = (name: string, description: string, properties: Record<string, unknown> = {}): Tool => ({
  name,
  description,
  inputSchema: { type: "object", properties },
})

const LISTINGS: Readonly<Record<string, readonly Tool[]>> = {
  github: [
    tool("create_issue", "Open a new issue in a repository.", { labels: { description: "Labels to attach" } }),
    tool("list_issues", "List the issues of a repository."),
    tool("deleteBranch", "Delete a branch."),
  ],
  slack: [
    tool("post_message", "Post a message to a channel."),
    tool("list_channels", "List the channels of the workspace."),
  ],
  files: [
    tool("read_file", "Read a file from disk."),
    tool("delete_file", "Delete a file from disk."),
    tool("list_issues", "List problems found in files."),
  ],
}

function indexOf(listings: Readonly<Record<string, readonly Tool[]>>): SearchIndex {
  const index = createSearchIndex()
  for (const [name, tools] of Object.entries(listings)) updateListing(index, { name }, tools)
  return index
}

const names = (index: SearchIndex, query: string, options: Partial<Parameters<typeof search>[2]> = {}) =>
  search(index, query, { limit: 10, ...options }).map(({ server, tool }) => `${server}/${tool}`)

describe("ranked search", () => {
  test("finds a tool by words of its name, its description and its parameters, in any inflection", () => {
    const index = indexOf(LISTINGS)
    expect(names(index, "reading a file")[0]).toBe("files/read_file")
    expect(names(index, "posted messages")[0]).toBe("slack/post_message")
    expect(names(index, "labels")[0]).toBe("github/create_issue")
    const choices = {
      anyOf: [{ properties: { invoice: {} } }, { $ref: "#/$defs/a" }],
      $defs: { a: { properties: { receipt: {} } } },
    }
    updateListing(index, { name: "books" }, [{ name: "scan", inputSchema: choices }])
    for (const word of ["invoices", "receipts"]) expect(names(index, word)).toEqual(["books/scan"])
  })

  test("splits names in camel, snake and kebab case", () => {
    expect(names(indexOf(LISTINGS), "branch delete")[0]).toBe("github/deleteBranch")
    expect(names(indexOf(LISTINGS), "delete-branch")[0]).toBe("github/deleteBranch")
  })

  test("ignores polite words", () => {
    const index = indexOf(LISTINGS)
    expect(names(index, "could you please list the channels for me?")).toEqual(names(index, "list channels"))
  })

  test("does not take words for another one that the stemmer cuts alike", () => {
    const index = indexOf({
      a: [
        tool("income_report", "Report the income."),
        tool("import_data", "Import data."),
        tool("tune", "Play an organ."),
      ],
    })
    expect(names(index, "incoming")).toEqual([])
    expect(names(index, "something important")).toEqual([])
    expect(names(index, "organ")).toEqual(["a/tune"])
  })

  test("a phrase counts once, though its words are also written as one", () => {
    const index = indexOf({
      a: [tool("setup", "Setup of it."), tool("create", "Create it.")],
      ...{ b: [tool("project", "A project.")], c: [tool("preferences", "The preferences."), tool("more", "More.")] },
    })
    const scoreOf = (query: string, name: string) =>
      search(index, query, { limit: 9 }).find((hit) => hit.tool === name)?.score ?? 0
    expect(scoreOf("set up", "setup") / scoreOf("setup", "setup")).toBeWithin(0.9, 1.2)
    expect(scoreOf("set up", "create")).toBeGreaterThan(0)
    // The synonyms are those of the phrase, not also those of the word.
    expect(scoreOf("set up", "preferences")).toBeLessThan(scoreOf("set", "preferences"))
  })

  test("reads a possessive as the word, with either apostrophe", () => {
    expect(names(indexOf(LISTINGS), "the channel's")).toEqual(names(indexOf(LISTINGS), "channel"))
    expect(names(indexOf(LISTINGS), "the channel’s")).toEqual(names(indexOf(LISTINGS), "channel"))
  })

  test("a server that the query names counts", () => {
    expect(names(indexOf(LISTINGS), "list issues in github")[0]).toBe("github/list_issues")
    expect(names(indexOf(LISTINGS), "list issues of files")[0]).toBe("files/list_issues")
  })

  test("says which fields matched", () => {
    expect(search(indexOf(LISTINGS), "labels", { limit: 1 })[0]?.matched).toEqual(["parameters"])
  })

  test("finds a misspelt word, unless a tool has it in this spelling", () => {
    const index = indexOf(LISTINGS)
    expect(names(index, "chanels")[0]).toBe("slack/list_channels")
    expect(names(index, "delete brnach")[0]).toBe("github/deleteBranch")
    updateListing(index, { name: "chanel" }, [tool("find_shop", "Find a shop.")])
    expect(names(index, "chanels")).toEqual(["chanel/find_shop"])
  })

  test("a hidden tool neither keeps a word from being corrected nor is the correction", () => {
    const index = indexOf({ ...LISTINGS, chanel: [tool("find_shop", "Find a boutique.")] })
    expect(names(index, "chanels", { allowed: (server) => server !== "chanel" })[0]).toBe("slack/list_channels")
    expect(names(index, "boutiqe", { allowed: (server) => server !== "chanel" })).toEqual([])
  })

  test("finds words written together that the tool has apart, and the other way round", () => {
    const index = indexOf({ x: [tool("list_timezones", "List zones."), tool("open_drop_down", "Open a menu.")] })
    expect(names(index, "time zones")[0]).toBe("x/list_timezones")
    expect(names(index, "opendrop")[0]).toBe("x/open_drop_down")
    updateListing(index, { name: "flags" }, [tool("create-feature-flag", "Create it.")])
    expect(names(index, "createfeatureflag")[0]).toBe("flags/create-feature-flag")
  })

  test("a short word is not taken for another one with a letter more or another letter", () => {
    const index = indexOf({ x: [tool("docker_ps", "List containers."), tool("add_mile", "Add a mile.")] })
    expect(names(index, "dock")).toEqual([])
    expect(names(index, "milk")).toEqual([])
    expect(names(index, "dockr")).toEqual(["x/docker_ps"])
  })

  test("a misspelt stop word is not corrected to a word of a tool", () => {
    const index = indexOf({ x: [tool("pleat_skirt", "Pleat."), tool("list_shops", "List shops.")] })
    expect(names(index, "pleaze list shops")).toEqual(["x/list_shops"])
  })

  test("finds synonyms, behind tools that have the word itself", () => {
    const index = indexOf({ ...LISTINGS, trash: [tool("remove_everything", "Remove all.")] })
    expect(names(index, "erase a branch")[0]).toBe("github/deleteBranch")
    expect(names(index, "get rid of a branch")[0]).toBe("github/deleteBranch")
    expect(names(index, "remove")).toEqual(["trash/remove_everything", "files/delete_file", "github/deleteBranch"])
  })

  test("a synonym that few tools have is no better than the word itself", () => {
    const index = createSearchIndex()
    const { tools = [] } = recordedServers().find(({ name }) => name === "memory") ?? {}
    updateListing(index, { name: "memory" }, tools)
    for (const name of ["create_entities", "create_relations", "delete_entities", "search_nodes"])
      expect(names(index, name.replace("_", " "))[0]).toBe(`memory/${name}`)
  })

  test("finds nothing for a query without words", () => {
    expect(names(indexOf(LISTINGS), "")).toEqual([])
    expect(names(indexOf(LISTINGS), "?!")).toEqual([])
  })

  test("an updated listing replaces the earlier one, and a removed one is gone", () => {
    const index = indexOf(LISTINGS)
    updateListing(index, { name: "slack" }, [tool("archive_channel", "Archive a channel.")])
    expect(names(index, "channel", { server: "slack" })).toEqual(["slack/archive_channel"])
    removeListing(index, "slack")
    expect(names(index, "channel")).toEqual([])
    expect(index.entries.filter((entry) => entry !== undefined)).toHaveLength(6)
  })

  test("the result does not depend on the order and the number of updates", () => {
    const fresh = indexOf(LISTINGS)
    const servers = Object.keys(LISTINGS)
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...servers), { maxLength: 8 }),
        fc.constantFrom("list issues", "delete", "file from disk"),
        (updates, query) => {
          const index = createSearchIndex()
          for (const name of [...updates, ...servers.toReversed()]) updateListing(index, { name }, LISTINGS[name] ?? [])
          expect(search(index, query, { limit: 10 })).toEqual(search(fresh, query, { limit: 10 }))
        },
      ),
    )
  })

  test("a filtered search is the search of an index without the hidden tools", () => {
    const all = Object.entries(LISTINGS).flatMap(([server, tools]) => tools.map(({ name }) => `${server}/${name}`))
    const index = indexOf(LISTINGS)
    fc.assert(
      fc.property(
        fc.subarray(all),
        fc.constantFrom("list issues", "delete a file", "mesage channel"),
        (visible, query) => {
          const allowed = (server: string, name: string) => visible.includes(`${server}/${name}`)
          const alone = indexOf(
            Object.fromEntries(
              Object.entries(LISTINGS).map(([server, tools]) => [
                server,
                tools.filter(({ name }) => allowed(server, name)),
              ]),
            ),
          )
          expect(search(index, query, { limit: 10, allowed })).toEqual(search(alone, query, { limit: 10 }))
        },
      ),
    )
  })
})
