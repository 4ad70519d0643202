import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createHash, randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CHUNK_BYTES, ResultStore } from "../../../src/features/results/result-store.ts"
import type { Clock } from "../../../src/lib/clock.ts"

const KEY = randomBytes(32)
const TEXT = { mimeType: "text/plain", isText: true, budget: 100 }
let root: string
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "svc-results-"))
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A store in its own folder; `now` can be changed. */
function storeIn(folder = mkdtempSync(join(root, "s-")), more: { capacity?: number; key?: Uint8Array } = {}) {
  const time = { now: Date.now() }
  const clock: Clock = { now: () => time.now, after: () => () => undefined }
  const key = more.key ?? KEY
  const store = new ResultStore({ folder, clock, key: async () => key, ttl: 3_600_000, capacity: more.capacity ?? 1e9 })
  return { store, folder, time }
}

async function put(store: ResultStore, bytes: Uint8Array, owner = "me", piece = 1_000_000) {
  const writer = store.create(owner)
  for (let at = 0; at < bytes.length; at += piece) await writer.write(bytes.subarray(at, at + piece))
  return writer.finish(TEXT)
}

describe("a stored result", () => {
  test.each([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 17 * CHUNK_BYTES + 5])(
    "of %d bytes is read back whole and in ranges, in another process",
    async (size) => {
      const bytes = randomBytes(size)
      const { store, folder } = storeIn()
      const about = await put(store, bytes, "me", 10_007)
      expect(about).toMatchObject({ size, sha256: createHash("sha256").update(bytes).digest("hex") })
      const reader = await storeIn(folder).store.open(about.id, "me")
      expect(reader?.about).toEqual(about)
      expect(await reader?.read(0, size)).toEqual(bytes)
      for (const [start, end] of [
        [1, 2],
        [CHUNK_BYTES - 1, CHUNK_BYTES + 1],
        [size - 3, size + 10],
      ] as const)
        expect(await reader?.read(start, end)).toEqual(bytes.subarray(Math.max(0, start), end))
      await reader?.close()
    },
  )

  test("counts the line feeds of each chunk", async () => {
    const { store } = storeIn()
    const about = await put(store, Buffer.from("a\n".repeat(CHUNK_BYTES)))
    expect(about.lineFeeds).toEqual([CHUNK_BYTES / 2, CHUNK_BYTES / 2])
  })

  test("does not exist for another owner, under an unknown id, or after its lifetime", async () => {
    const { store, time } = storeIn()
    const { id } = await put(store, Buffer.from("secret"))
    expect(await store.open(id, "you")).toBeUndefined()
    expect(await store.open("0".repeat(32), "me")).toBeUndefined()
    expect(await store.open("../../etc/passwd", "me")).toBeUndefined()
    time.now += 3_600_001
    expect(await store.open(id, "me")).toBeUndefined()
  })

  test("is encrypted, private, and refused if one of its bytes or the key has changed", async () => {
    const { store, folder } = storeIn()
    const { id } = await put(store, Buffer.from("plain words ".repeat(10_000)))
    const path = join(folder, `${id}.result`)
    const bytes = readFileSync(path)
    expect(bytes.includes("plain words")).toBe(false)
    expect(bytes.includes('"owner"')).toBe(false)
    expect(statSync(path).mode & 0o077).toBe(0)
    await expect(storeIn(folder, { key: randomBytes(32) }).store.open(id, "me")).rejects.toThrow("key has changed")
    // Two whole chunks are exchanged.
    const stride = CHUNK_BYTES + 16
    const big = await put(store, randomBytes(3 * CHUNK_BYTES))
    const bigPath = join(folder, `${big.id}.result`)
    const file = readFileSync(bigPath)
    const swapped = Buffer.from(file)
    file.copy(swapped, 24, 24 + stride, 24 + 2 * stride)
    file.copy(swapped, 24 + stride, 24, 24 + stride)
    writeFileSync(bigPath, swapped)
    const reader = await store.open(big.id, "me")
    await expect(reader?.read(0, 10)).rejects.toThrow("its file has changed")
    await reader?.close()
    // The file of one result under the id of another.
    writeFileSync(path, file)
    await expect(store.open(id, "me")).rejects.toThrow("cannot be opened")
  })
})

describe("the folder", () => {
  test("contains nothing of a result that was not completed", async () => {
    const { store, folder } = storeIn()
    const writer = store.create("me")
    await writer.write(randomBytes(40 * CHUNK_BYTES))
    expect(readdirSync(folder).filter((name) => name.endsWith(".result"))).toEqual([])
    await writer.abort()
    expect(readdirSync(folder)).toEqual([])
  })

  test("is cleaned of files that a killed writer left, but not of files that a running one writes", async () => {
    const { store, folder } = storeIn()
    const names = [2 ** 22 + 1, process.ppid].map(
      (pid) => `.${"a".repeat(32)}.result.${pid.toString(16).padStart(12, "0")}.tmp`,
    )
    for (const name of names) {
      writeFileSync(join(folder, name), "half")
      utimesSync(join(folder, name), 1, 1)
    }
    store.sweep()
    expect(readdirSync(folder)).toEqual([names[1] as string])
  })

  test("loses the oldest results if all together are too large, and those whose lifetime is over", async () => {
    const { store, folder, time } = storeIn(undefined, { capacity: 250_000 })
    const ids: string[] = []
    for (let at = 0; at < 4; at++) {
      const { id } = await put(store, randomBytes(100_000))
      utimesSync(join(folder, `${id}.result`), at + time.now / 1000 - 10, at + time.now / 1000 - 10)
      ids.push(id)
    }
    store.sweep()
    expect(readdirSync(folder).sort()).toEqual(
      ids
        .slice(2)
        .map((id) => `${id}.result`)
        .sort(),
    )
    time.now += 3_700_000
    store.sweep()
    expect(readdirSync(folder)).toEqual([])
  })
})
