/** The checks of macOS before it runs a program, on a file that contains only the parts that are checked. */
import { expect, test } from "bun:test"
import { signAdHoc } from "../scripts/sign.ts"

const PAGE = 4096
const sha256 = (bytes: Uint8Array) => new Bun.CryptoHasher("sha256").update(bytes).digest("hex")

/** A program of `size` bytes, followed by an old signature of `stale` bytes. */
function program(size: number, stale: number): Uint8Array {
  const file = new Uint8Array(size + stale).fill(7)
  const view = new DataView(file.buffer)
  const segment = (at: number, name: string, offset: number, length: number) => {
    view.setUint32(at, 0x19, true)
    view.setUint32(at + 4, 72, true)
    file.set(new TextEncoder().encode(name.padEnd(16, "\0")), at + 8)
    for (const [index, value] of [0, length, offset, length].entries())
      view.setBigUint64(at + 24 + index * 8, BigInt(value), true)
  }
  view.setUint32(0, 0xfeedfacf, true)
  view.setUint32(16, 3, true)
  segment(32, "__TEXT", 0, 2 * PAGE)
  segment(104, "__LINKEDIT", 2 * PAGE, size + stale - 2 * PAGE)
  for (const [index, value] of [0x1d, 16, size, stale].entries()) view.setUint32(176 + index * 4, value, true)
  return file
}

test("each page up to the signature has its hash; the hash of a short last page covers only its own length", () => {
  const size = 3 * PAGE + 160
  for (const stale of [16, 5000]) {
    const signed = signAdHoc(program(size, stale), "svc")
    const view = new DataView(signed.buffer)
    const directory = size + 20
    expect(view.getUint32(directory)).toBe(0xfade0c02)
    expect(view.getUint32(directory + 28)).toBe(4)
    expect(view.getUint32(directory + 32)).toBe(size)
    const hashes = directory + view.getUint32(directory + 16)
    for (let page = 0; page < 4; page++) {
      const hash = signed.subarray(hashes + page * 32, hashes + page * 32 + 32)
      expect(Buffer.from(hash).toString("hex")).toBe(
        sha256(signed.subarray(page * PAGE, Math.min((page + 1) * PAGE, size))),
      )
    }
    expect(signed.length).toBe(hashes + 4 * 32)
  }
})

test("the file and its last segment end with the signature", () => {
  const size = 3 * PAGE + 160
  const signed = signAdHoc(program(size, 5000), "svc")
  const view = new DataView(signed.buffer)
  expect(size + view.getUint32(176 + 12, true)).toBe(signed.length)
  expect(Number(view.getBigUint64(104 + 48, true))).toBe(signed.length - 2 * PAGE)
  expect(Number(view.getBigUint64(104 + 32, true))).toBeGreaterThanOrEqual(signed.length - 2 * PAGE)
})

test("a file that is not a 64-bit Mach-O program with a signature is rejected", () => {
  expect(() => signAdHoc(new Uint8Array(4096), "svc")).toThrow("not a 64-bit Mach-O file")
})
