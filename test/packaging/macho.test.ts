/** The check of programs for macOS, on a file with the few parts that it reads. */
import { expect, test } from "bun:test"
import { checkMachO } from "../../scripts/release/macho.ts"
import { signAdHoc } from "../../scripts/sign.ts"

const SIZE = 3 * 4096 + 160
const ARM64 = 0x0100000c
const check = (program: Uint8Array) => () => checkMachO({ file: "svc-mac", os: "darwin", cpu: "arm64" }, program)

/** Returns a program with code, a library, the oldest macOS, and the place for a signature. */
function unsigned({ library = "/usr/lib/libSystem.B.dylib", processor = ARM64, macOS = 13 } = {}): Uint8Array {
  const file = Buffer.alloc(SIZE + 64, 7)
  file.fill(0, 0, 512)
  let at = 32
  const command = (kind: number, size: number, words: readonly number[]) => {
    for (const [index, word] of [kind, size, ...words].entries()) file.writeUInt32LE(word, at + index * 4)
    at += size
  }
  const segment = (name: string, offset: number, length: number) => {
    file.write(name, at + 8, "latin1")
    for (const [index, value] of [0, length, offset, length].entries())
      file.writeBigUInt64LE(BigInt(value), at + 24 + index * 8)
    command(0x19, 72, [])
  }
  for (const [index, word] of [0xfeedfacf, processor, 0, 2, 5].entries()) file.writeUInt32LE(word, index * 4)
  segment("__TEXT", 0, 8192)
  segment("__LINKEDIT", 8192, SIZE + 64 - 8192)
  file.write(`${library}\0`, at + 24, "latin1")
  command(0xc, 24 + 64, [24])
  command(0x32, 24, [1, macOS << 16])
  command(0x1d, 16, [SIZE, 64])
  return file
}

const changed = (at: number) => {
  const program = signAdHoc(unsigned(), "svc")
  program[at] = (program[at] ?? 0) ^ 1
  return program
}

test("a signed program passes, and a program of another system is not looked at", () => {
  expect(check(signAdHoc(unsigned(), "svc"))).not.toThrow()
  expect(() => checkMachO({ file: "svc", os: "linux", cpu: "x64" }, new Uint8Array(8))).not.toThrow()
})

test("a program that macOS would not run is named with the problem", () => {
  expect(check(new Uint8Array(64))).toThrow("svc-mac is not a 64-bit Mach-O file")
  expect(check(signAdHoc(unsigned({ processor: 7 }), "svc"))).toThrow("svc-mac is not a program for arm64")
  expect(check(signAdHoc(unsigned({ library: "/opt/homebrew/lib/libicu.dylib" }), "svc"))).toThrow(
    "needs /opt/homebrew/lib/libicu.dylib, which macOS does not have",
  )
  expect(check(signAdHoc(unsigned({ macOS: 15 }), "svc"))).toThrow("is not built for macOS 13.0 and newer")
  expect(check(signAdHoc(unsigned(), "svc").subarray(0, SIZE + 100))).toThrow("is cut off")
  expect(check(Buffer.concat([signAdHoc(unsigned(), "svc"), Buffer.alloc(4)]))).toThrow(
    "does not end with its signature",
  )
  for (const at of [5000, SIZE - 1]) expect(check(changed(at))).toThrow("has a signature of other contents")
})
