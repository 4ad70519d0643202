import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { checkNeeds, needsOf } from "../../scripts/release/elf.ts"

test.if(process.platform === "linux")("Bun's own program needs what the packages require", () => {
  const program = readFileSync(process.execPath)
  const { libraries } = needsOf(program)
  expect(libraries).toContain(libraries.some((name) => name.startsWith("libc.musl")) ? "libstdc++.so.6" : "libc.so.6")
  checkNeeds({ file: "svc", libc: libraries.includes("libstdc++.so.6") ? "musl" : "glibc" }, program)
})

test("a library that no package requires, and a newer glibc, are reported", () => {
  expect(() => checkNeeds({ file: "svc", libc: "glibc" }, elf(["libc.so.6", "libicu.so.72"], "GLIBC_2.17"))).toThrow(
    "svc needs libicu.so.72, which its packages do not require",
  )
  expect(() => checkNeeds({ file: "svc", libc: "glibc" }, elf(["libc.so.6"], "GLIBC_2.34"))).toThrow(
    "svc needs glibc 2.34, and its packages require 2.17",
  )
  const musl = ["libc.musl-x86_64.so.1", "libstdc++.so.6", "libgcc_s.so.1"]
  checkNeeds({ file: "svc", libc: "musl" }, elf(musl, "GLIBCXX_3.4"))
  expect(() => checkNeeds({ file: "svc", libc: "glibc" }, elf(musl, "GLIBC_2.2"))).toThrow(
    "libstdc++.so.6, libgcc_s.so.1",
  )
  expect(() => needsOf(Buffer.alloc(64))).toThrow("not a 64-bit ELF file")
})

/** Returns an ELF file with a dynamic section alone, which needs libraries and a version of the first. */
function elf(libraries: readonly string[], version: string): Buffer {
  const strings = Buffer.from(["", ...libraries, version, ""].join("\0"))
  const at = (text: string) => strings.indexOf(`\0${text}\0`) + 1
  const dynamic = [...libraries.map((name) => [1, at(name)]), [5, 1024], [0x6ffffffe, 2048], [0x6fffffff, 1], [0, 0]]
  const file = Buffer.alloc(4096)
  file.write("\x7fELF\x02\x01", "latin1")
  file.writeBigUInt64LE(64n, 32)
  file.writeUInt16LE(56, 54)
  file.writeUInt16LE(2, 56)
  for (const [index, [type, offset, size]] of [
    [1, 0, 4096],
    [2, 512, dynamic.length * 16],
  ].entries()) {
    file.writeUInt32LE(type ?? 0, 64 + index * 56)
    for (const [field, value] of [
      [8, offset],
      [16, offset],
      [32, size],
    ])
      file.writeBigUInt64LE(BigInt(value ?? 0), 64 + index * 56 + (field ?? 0))
  }
  for (const [index, entry] of dynamic.entries())
    for (const [half, value] of entry.entries()) file.writeBigUInt64LE(BigInt(value), 512 + index * 16 + half * 8)
  strings.copy(file, 1024)
  file.writeUInt16LE(1, 2048 + 2)
  file.writeUInt32LE(at(libraries[0] ?? ""), 2048 + 4)
  file.writeUInt32LE(16, 2048 + 8)
  file.writeUInt32LE(at(version), 2048 + 16 + 8)
  return file
}
