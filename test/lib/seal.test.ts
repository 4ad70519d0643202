import { expect, test } from "bun:test"
import fc from "fast-check"
import { createSealer } from "../../src/lib/seal.ts"

const sealer = createSealer(new Uint8Array(32).fill(1))

test("what was sealed is opened, and nothing else is", () => {
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
