import { expect, test } from "bun:test"
import { createTokenCounter } from "../../../src/features/rest/own-commands.ts"

const report = (tokens: number) => ({ servers: [{ tools: [{ name: "a", tokens }] }] })

test("tokens are counted once for a catalog, and by one command at a time [rest:offers]", async () => {
  let generation = 1
  const counts: PromiseWithResolvers<unknown>[] = []
  const count = createTokenCounter(
    () => {
      const next = Promise.withResolvers<unknown>()
      counts.push(next)
      return next.promise
    },
    () => generation,
  )
  const first = [count(), count()]
  expect(counts).toHaveLength(1)
  counts[0]?.resolve(report(7))
  for (const one of first) expect((await one).get("a")).toBe(7)
  expect((await count()).get("a")).toBe(7)
  expect(counts).toHaveLength(1)

  generation = 2
  const second = count()
  generation = 3
  const third = count()
  counts[1]?.resolve(report(8))
  while (counts.length < 3) await Promise.resolve()
  expect(counts).toHaveLength(3)
  counts[2]?.resolve(report(9))
  expect((await third).get("a")).toBe(9)
  expect((await second).get("a")).toBe(9)
})

test("without an answer of the command, nothing is counted [rest:offers]", async () => {
  const count = createTokenCounter(
    () => Promise.reject(new Error("no svc")),
    () => 1,
  )
  expect((await count()).size).toBe(0)
})
