/** Reads from a Linux program what it needs of the system: libraries, and the newest version of glibc that its functions are of. */

import { OLDEST_GLIBC } from "./deb.ts"
import { ALPINE_PACKAGES, type Platform } from "./facts.ts"

export type Needs = { readonly libraries: readonly string[]; readonly glibc: string | undefined }

/** Returns the needs of a 64-bit little-endian ELF program. Throws if the file is none. */
export function needsOf(file: Uint8Array): Needs {
  const bytes = Buffer.from(file.buffer, file.byteOffset, file.byteLength)
  if (bytes.toString("latin1", 0, 6) !== "\x7fELF\x02\x01") throw new Error("not a 64-bit ELF file")
  const segments = Array.from({ length: bytes.readUInt16LE(56) }, (_, index) => {
    const at = Number(bytes.readBigUInt64LE(32)) + index * bytes.readUInt16LE(54)
    const [offset, address, , size] = [8, 16, 24, 32].map((field) => Number(bytes.readBigUInt64LE(at + field)))
    return { type: bytes.readUInt32LE(at), offset: offset ?? 0, address: address ?? 0, size: size ?? 0 }
  })
  const offsetOf = (address: number): number => {
    const found = segments.find(
      (one) => one.type === LOAD && address >= one.address && address < one.address + one.size,
    )
    return found === undefined ? 0 : address - found.address + found.offset
  }
  const dynamic = segments.find(({ type }) => type === DYNAMIC)
  if (dynamic === undefined) return { libraries: [], glibc: undefined }
  const entries = Array.from({ length: dynamic.size / 16 }, (_, index) => {
    const at = dynamic.offset + index * 16
    return { tag: Number(bytes.readBigUInt64LE(at)), value: Number(bytes.readBigUInt64LE(at + 8)) }
  })
  const entryOf = (tag: number): number => entries.find((entry) => entry.tag === tag)?.value ?? 0
  const strings = offsetOf(entryOf(STRTAB))
  const text = (at: number): string => bytes.toString("latin1", strings + at, bytes.indexOf(0, strings + at))
  const libraries = entries.filter(({ tag }) => tag === NEEDED).map(({ value }) => text(value))
  const versions: string[] = []
  let library = offsetOf(entryOf(VERNEED))
  for (let left = entryOf(VERNEEDNUM); left > 0; left--) {
    let version = library + bytes.readUInt32LE(library + 8)
    for (let more = bytes.readUInt16LE(library + 2); more > 0; more--) {
      versions.push(text(bytes.readUInt32LE(version + 8)))
      version += bytes.readUInt32LE(version + 12)
    }
    library += bytes.readUInt32LE(library + 12)
  }
  const glibc = versions.flatMap((version) => /^GLIBC_([\d.]+)$/.exec(version)?.[1] ?? [])
  return { libraries, glibc: glibc.sort((one, other) => Bun.semver.order(padded(one), padded(other))).at(-1) }
}

/** Throws unless the packages of a program's platform provide what the program needs. */
export function checkNeeds({ file, libc }: Pick<Platform, "file" | "libc">, program: Uint8Array): void {
  if (libc === undefined) return
  const { libraries, glibc = "0" } = needsOf(program)
  const provided =
    libc === "glibc" ? GLIBC : ["libc", ...ALPINE_PACKAGES.map((name) => name.replace("libgcc", "libgcc_s"))]
  const missing = libraries.filter((library) => !provided.some((name) => library.startsWith(`${name}.`)))
  if (missing.length > 0) throw new Error(`${file} needs ${missing.join(", ")}, which its packages do not require`)
  if (Bun.semver.order(padded(glibc), padded(OLDEST_GLIBC)) > 0)
    throw new Error(`${file} needs glibc ${glibc}, and its packages require ${OLDEST_GLIBC}`)
}

// ---

const LOAD = 1
const DYNAMIC = 2
const NEEDED = 1
const STRTAB = 5
const VERNEED = 0x6ffffffe
const VERNEEDNUM = 0x6fffffff

/** The libraries of the package libc6. */
const GLIBC = ["libc", "libm", "libdl", "libpthread", "librt", "ld-linux-x86-64", "ld-linux-aarch64"]

/** Returns a version of glibc with three numbers, as semantic versions have. */
const padded = (version: string): string => [...version.split("."), "0", "0"].slice(0, 3).join(".")
