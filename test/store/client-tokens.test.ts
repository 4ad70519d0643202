import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { createToken, NO_TOKENS, printTokens, readTokens, replaceTokens } from "../../src/store/client-tokens.ts"
import { freshFolder, removeFolder } from "../e2e/harness.ts"

const DAY_MS = 24 * 3_600_000
const NOW = Date.parse("2026-03-01T00:00:00Z")

test("a file keeps the ids of revoked tokens for a while, and refuses entries with them [auth:token:revoked]", () => {
  const folder = freshFolder()
  const path = join(folder, "tokens.json")
  const write = (text: string) => writeFileSync(path, text, { mode: 0o600 })
  const [kept, endless, short, long] = ["kept", "endless", "short", "long"].map((name, index) => {
    const expires = index < 2 ? undefined : NOW + (index === 2 ? 1 : 10) * DAY_MS - 1
    return createToken(name, { now: NOW, expires }).token
  }) as [Token, Token, Token, Token]
  const all = new Map([kept, endless, short, long].map((token) => [token.id, token]))
  // As older versions wrote it.
  write(JSON.stringify({ tokens: [...all.values()] }))
  const before = readTokens(path, process.platform)
  expect(before).toEqual({ ...NO_TOKENS, tokens: all })
  expect(printTokens(before)).not.toContain("revoked")
  const after = replaceTokens(before, new Map([[kept.id, kept]]), NOW)
  expect([...after.revoked]).toEqual([
    [endless.id, NOW + 365 * DAY_MS],
    [short.id, NOW + DAY_MS],
    [long.id, NOW + 10 * DAY_MS - 1],
  ])
  write(printTokens(after))
  expect(readTokens(path, process.platform)).toEqual(after)
  // An entry comes back from a backup.
  const { tokens: _, ...rest } = JSON.parse(printTokens(after))
  write(JSON.stringify({ tokens: [...all.values()], ...rest }))
  expect([...readTokens(path, process.platform).tokens.keys()]).toEqual([kept.id])
  expect([...replaceTokens(after, after.tokens, NOW + 2 * DAY_MS).revoked.keys()]).toEqual([endless.id, long.id])
  write(JSON.stringify({ tokens: [], revoked: [{ id: "x", until: "soon" }] }))
  expect(() => readTokens(path, process.platform)).toThrow("revoked.0.id")
  removeFolder(folder)
})

type Token = ReturnType<typeof createToken>["token"]
