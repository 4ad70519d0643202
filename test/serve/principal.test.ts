import { expect, test } from "bun:test"
import { buildCatalog, emptyCatalog, isWithdrawn, viewOf } from "../../src/catalog/catalog.ts"
import { createScope, identityOf, scopeIncludes } from "../../src/catalog/scope.ts"
import type { ServerQuery } from "../../src/catalog/selection.ts"
import type { Preset } from "../../src/config/presets.ts"
import { ANONYMOUS, createScopeNarrowing, isSame, maySee, type Principal } from "../../src/serve/principal.ts"
import { fakePeer, fakeSpec } from "../fakes.ts"

const principal = (rights: Partial<Principal>): Principal => ({ ...ANONYMOUS, ...rights })
const queries: readonly ServerQuery[] = []
const presets = new Map<string, Preset>()
const everything = createScope(
  () => queries,
  () => presets,
)

test("tags open the servers with one of them, and servers without tags only if the principal may", () => {
  const tagged = principal({ tags: ["a"], untagged: false })
  const scoped = principal({ tags: ["a"], untagged: true })
  expect([["a", "b"], ["b"], []].map((tags) => maySee(tagged, tags))).toEqual([true, false, false])
  expect([["a", "b"], ["b"], []].map((tags) => maySee(scoped, tags))).toEqual([true, false, true])
  expect(maySee(principal({ tags: [] }), ["a"])).toBe(false)
  expect(maySee(ANONYMOUS, ["a"])).toBe(true)
})

test("a narrowed scope selects what the principal sees, withholds svc's own tools, and stays the same object", () => {
  const narrow = createScopeNarrowing("all")
  const team = principal({ tags: ["a"], untagged: false, admin: false })
  const scope = narrow(everything, team)
  if (scope.kind === "server") expect.unreachable()
  expect([scope.selects(["a"]), scope.selects([]), scope.restricted]).toEqual([true, false, true])
  expect(narrow(everything, team)).toBe(scope)
  expect(narrow(everything, ANONYMOUS)).toBe(everything)
  const reader = narrow(everything, principal({ admin: false }))
  if (reader.kind === "server") expect.unreachable()
  expect([reader.selects(["x"]), reader.restricted]).toEqual([true, true])
})

test("the scope of one server follows its tags, and has its own view and identity [auth:tags:streams]", () => {
  const narrow = createScopeNarrowing("all")
  const team = principal({ tags: ["a"], untagged: false, admin: false })
  const one = { kind: "server", id: "x" } as const
  const [scope, again] = [narrow(one, team), narrow({ ...one }, team)]
  const spec = (...tags: string[]) => ({ ...fakeSpec({ tags }), id: "x", name: "x", slug: "x" })
  expect([spec("a"), spec("b"), spec()].map((seen) => scopeIncludes(scope, seen))).toEqual([true, false, false])
  expect(identityOf(again)).toBe(identityOf(scope))
  expect(narrow(one, ANONYMOUS)).toEqual(one)
  const others = [
    narrow(one, ANONYMOUS),
    narrow(one, { ...team, tags: ["b"] }),
    narrow(one, { ...team, untagged: true }),
  ]
  expect(new Set([scope, ...others].map(identityOf)).size).toBe(4)
  const listing = { ...fakePeer("legacy"), tools: [], prompts: [], resources: [], resourceTemplates: [] }
  const catalog = buildCatalog([{ spec: spec("b"), listing }], emptyCatalog())
  expect(viewOf(catalog, narrow(one, ANONYMOUS)).parts).toHaveLength(1)
  expect(viewOf(catalog, scope).parts).toHaveLength(0)
  expect([isWithdrawn(catalog, scope), isWithdrawn(catalog, one)]).toEqual([true, false])
  expect(isWithdrawn(emptyCatalog(), scope)).toBe(false)
})

test("two principals are the same if their holder and rights are the same, in any order of tags [auth:identity]", () => {
  const one = principal({ name: "token 1", tags: ["a", "b"] })
  expect(isSame(one, { ...one, tags: ["b", "a"], until: 5 })).toBe(true)
  for (const change of [
    { name: "token 2" },
    { tags: ["a"] },
    { tags: undefined },
    { untagged: false },
    { admin: false },
  ])
    expect(isSame(one, { ...one, ...change })).toBe(false)
})
