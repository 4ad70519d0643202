import { expect, test } from "bun:test"
import { TokenSource } from "../../../src/features/oauth/token-source.ts"
import { manualClock } from "../../clock.ts"

test("an authorization that cannot be stored is stored with a later use, unless a newer one is there [disk:full]", async () => {
  const clock = manualClock()
  const stored = new Map<string, object>()
  const warnings: string[] = []
  let isFull = true
  const launch = { transport: "remote", url: "https://a.example/mcp" } as unknown as TokenSource["launch"]
  const open = () =>
    new TokenSource("a", launch, {
      clock,
      fetch: () => Promise.reject(new Error("no network")),
      secrets: {
        read: async () => Object.fromEntries(stored),
        put: async (name, entry) => {
          if (isFull) throw new Error("the disk is full")
          stored.set(name, entry as object)
        },
        exclusive: (_, task) => task(),
      },
      loadOAuthClient: () => import("../../../src/features/oauth/oauth-client.ts"),
      addSecrets() {},
      warn: (_, message) => void warnings.push(message),
    })
  const tokens = (access: string) => {
    const client = { id: "c", issuer: "https://i.example" }
    return { access, refresh: "r", obtainedAt: clock.now(), issuer: client.issuer, client } as never
  }
  const source = open()
  await source.load()
  await source.change({ tokens: tokens("one") })
  expect(warnings).toEqual([expect.stringContaining("cannot be stored now")])
  isFull = false
  expect((await source.usable())?.access).toBe("one")
  expect(stored.size).toBe(0)
  await clock.pass(60_000)
  await source.usable()
  const again = open()
  expect((await again.usable())?.access).toBe("one")

  isFull = true
  await clock.pass(1)
  await source.change({ tokens: tokens("two") })
  isFull = false
  await clock.pass(1)
  await again.change({ tokens: tokens("three") })
  await clock.pass(60_000)
  await source.usable()
  expect((await open().usable())?.access).toBe("three")
})
