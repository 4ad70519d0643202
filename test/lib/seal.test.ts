import { expect, test } from "bun:test"
import fc from "fast-check"
import { createMarker, createSealer, isSameMark } from "../../src/lib/seal.ts"

const sealer = createSealer(new Uint8Array(32).fill(1))

test("only sealed text can be opened", () => {
  fc.assert(
    fc.property(fc.string(), fc.nat(), fc.nat(63), (text, place, letter) => {
      const sealed = sealer.seal(text)
      expect(sealer.open(sealed)).toBe(text)
      const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
      const at = place % sealed.length
      const changed = sealed.slice(0, at) + letters[letter] + sealed.slice(at + 1)
      if (changed !== sealed) expect(sealer.open(changed)).toBeUndefined()
    }),
  )
  expect(createSealer(new Uint8Array(32)).open(sealer.seal("x"))).toBeUndefined()
  for (const text of ["", "a", "not base64!", "AAAA"]) expect(sealer.open(text)).toBeUndefined()
})

test("a mark depends on its texts and its key, and the key is requested once", () => {
  let asked = 0
  const mark = createMarker(() => {
    asked++
    return new Uint8Array(32).fill(1)
  })
  const other = createMarker(() => new Uint8Array(32))
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 4 }), fc.array(fc.string(), { maxLength: 4 }), (one, two) => {
      expect(mark(...one)).toMatch(/^[\w-]{22}$/)
      expect(isSameMark(mark(...one), mark(...two))).toBe(JSON.stringify(one) === JSON.stringify(two))
      expect(isSameMark(mark(...one), other(...one))).toBe(false)
    }),
  )
  expect([asked, isSameMark("", mark()), isSameMark("ä", "ab")]).toEqual([1, false, false])
})
