/** The decisions of the admin page that need no browser. */
import { describe, expect, test } from "bun:test"
import { mergedSettings } from "../../src/admin/merge.ts"
import { keyOfTool, presetName, rulesAfter, rulesFor, withChanges } from "../../src/admin/preset-choice.ts"
import { readingMs } from "../../src/admin/words.ts"
import { excludedBy, presetIncludes, type RuledEntry } from "../../src/catalog/view-rules.ts"
import { parseDocument } from "../../src/config/document.ts"
import { readPresets } from "../../src/config/presets.ts"
import { randomFrom } from "../random.ts"

describe("mergedSettings [admin:merge]", () => {
  const base = { command: "a", tags: ["x"], cwd: "/" }

  test("keeps changes of different members", () => {
    expect(mergedSettings(base, { ...base, tags: ["y"] }, { ...base, command: "b" })).toEqual({
      ...base,
      tags: ["y"],
      command: "b",
    })
    expect(mergedSettings(base, { ...base, more: 1 }, { command: "a", tags: ["x"] })).toEqual({
      command: "a",
      tags: ["x"],
      more: 1,
    })
  })

  test("refuses two changes of one member, unless they are the same", () => {
    expect(mergedSettings(base, { ...base, cwd: "/b" }, { ...base, cwd: "/c" })).toBeUndefined()
    expect(mergedSettings(base, { ...base, cwd: "/b" }, { ...base, cwd: "/b" })).toEqual({ ...base, cwd: "/b" })
    const { cwd: _, ...without } = base
    expect(mergedSettings(base, without, { ...base, cwd: "/c" })).toBeUndefined()
  })
})

describe("rulesFor [admin:presets-ticked]", () => {
  const tools = ["a/one", "a/two", "b/one", "c/one"].map((key) => {
    const [server = "", name = ""] = key.split("/")
    return { server, name }
  })

  test("whole servers need no list of tools", () => {
    expect(rulesFor(tools, new Set(["b/one", "c/one"]))).toEqual({ matches: ["b", "c"], allow: [] })
  })

  test("a part of a server is listed, and the other servers stay whole", () => {
    expect(rulesFor(tools, new Set(["a/two", "b/one"]))).toEqual({
      matches: ["a", "b"],
      allow: ["a/two", "a/prompt:*", "a/resource:*", "b/*"],
    })
  })

  test("the key of a tool is that of the rules", () => expect(tools.map(keyOfTool)).toContain("a/one"))
})

describe("rulesAfter [admin:presets-edited]", () => {
  const servers = [
    { name: "alpha", tags: ["web"] },
    { name: "apex", tags: [] },
    // Rules may name it as its tools do: be-ta.
    { name: "be ta", tags: ["web"] },
    // Not connected: the page knows no tools of it.
    { name: "down", tags: ["web"] },
  ].map(({ name, tags }) => ({ name, slug: name.replace(" ", "-"), tuning: { tags } }))
  const named = ["one", "two", "three"]
  const entries: readonly RuledEntry[] = [
    ...named.map((name) => ({ kind: "tool", tool: { name } }) as const),
    { kind: "prompt", name: "greet" },
    { kind: "prompt", name: "part" },
    { kind: "resource", name: "file:///open" },
    { kind: "resource", name: "file:///secret" },
  ]
  const tools = servers
    .filter(({ name }) => name !== "down")
    .flatMap(({ name: server }) => named.map((name) => ({ server, name })))

  const known = servers.map(({ name }) => name)

  type Written = Parameters<typeof rulesAfter>[0]
  /** Reads a preset; throws if it selects nothing. */
  const read = ({ filter, matches, allow, deny }: Omit<Written, "servers">) => {
    const members = Object.entries({ filter, servers: matches, allow, deny }).filter(
      ([, value]) => value !== undefined && value.length > 0,
    )
    // "readOnly" selects something, so that a preset without rules is one of all servers.
    const preset = { readOnly: false, ...Object.fromEntries(members) }
    return readPresets(parseDocument(JSON.stringify({ presets: { one: preset } }), "test")).presets.get(
      "one",
    ) as NonNullable<ReturnType<ReturnType<typeof readPresets>["presets"]["get"]>>
  }
  const seenBy = (preset: ReturnType<typeof read>) => (server: (typeof servers)[number], entry: RuledEntry) =>
    excludedBy(preset, server as never, entry) === undefined

  test("a rule for resources, and a server that is not connected, survive a change of another box", () => {
    const before = {
      filter: "",
      matches: ["*"],
      deny: ["*/resource:file:///secret"],
      servers: known,
    }
    const ticked = new Set(tools.map(keyOfTool))
    expect(rulesAfter(before, tools, ticked, new Map([["alpha/two", false]]), known)).toEqual({
      matches: ["*"],
      allow: ["apex/*", "be ta/*", "down/*", "alpha/one", "alpha/three", "alpha/prompt:*", "alpha/resource:*"],
      deny: ["*/resource:file:///secret"],
    })
  })

  test("of any preset, changed boxes change their tools and nothing else", () => {
    const random = randomFrom(39)
    const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T
    const some = <T>(values: readonly T[]): readonly T[] => values.filter(() => random() < 0.25)
    const names = ["*", "alpha", "be ta", "be-ta", "a*", "*a", "down"]
    const rests = ["*", "one", "t*", "prompt:*", "prompt:greet", "resource:*", "resource:file:///s*"]
    const patterns = names.flatMap((name) => rests.map((rest) => `${name}/${rest}`)).concat("alpha", "a*")
    let edits = 0
    for (let round = 0; round < 3000; round++) {
      const rules = {
        filter: pick(["", "", "web"]),
        matches: pick([undefined, some(names)]),
        allow: pick([undefined, some(patterns)]),
        deny: pick([undefined, some(patterns).slice(0, 3)]),
      }
      const preset = read(rules)
      const isSeen = seenBy(preset)
      const selected = servers.filter((server) => presetIncludes(preset, server, server.tuning.tags))
      const before = { ...rules, servers: selected.map(({ name }) => name) }
      const isTicked = ({ server, name }: (typeof tools)[number]) =>
        isSeen(servers.find((one) => one.name === server) as (typeof servers)[number], { kind: "tool", tool: { name } })
      const ticked = new Set(tools.filter(isTicked).map(keyOfTool))
      const changes = new Map(tools.filter(() => random() < 0.2).map((tool) => [keyOfTool(tool), random() < 0.5]))
      const wanted = withChanges(ticked, changes)
      const changed = new Set(
        tools.filter((tool) => wanted.has(keyOfTool(tool)) !== ticked.has(keyOfTool(tool))).map(({ server }) => server),
      )
      if (changed.size === 0 || wanted.size === 0) continue
      edits++
      const next = { ...rules, ...rulesAfter(before, tools, ticked, changes, known) }
      const isSeenNow = seenBy(read(next))
      for (const server of servers) {
        const isLeftOut = changed.has(server.name) && !named.some((name) => wanted.has(`${server.name}/${name}`))
        for (const entry of entries) {
          const was = isSeen(server, entry)
          const isNew = changed.has(server.name) && !before.servers.includes(server.name)
          const expected = () => {
            if (entry.kind === "tool" && server.name !== "down") return wanted.has(`${server.name}/${entry.tool.name}`)
            return isLeftOut ? false : was || (isNew && entry.kind !== "tool" && isSeenNow(server, entry))
          }
          const what = JSON.stringify({ rules, changes: [...changes], next, server: server.name, entry })
          expect([isSeenNow(server, entry), what]).toEqual([expected(), what])
        }
      }
    }
    expect(edits).toBeGreaterThan(1000)
  })
})

test.each([
  ["My sales stuff", "My-sales-stuff"],
  ["  a/b?c  ", "a-b-c"],
  ["ok_1.2-x", "ok_1.2-x"],
  ["ÄÖ", ""],
])("the name %p of a preset becomes %p [admin:presets-ticked]", (typed, name) => {
  expect(presetName(typed)).toBe(name)
})

test("a notice stays long enough to be read [admin:access]", () => {
  expect([readingMs("Saved"), readingMs("x".repeat(200))]).toEqual([6000, 12_000])
})
