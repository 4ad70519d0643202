/**
 * Checks of a program for macOS what macOS checks before it runs it, and what a Linux machine can read: a Mach-O executable for
 * the processor, with libraries of the system alone, and a signature that fits the file.
 */
import type { Cpu, Platform } from "./facts.ts"

/** The oldest macOS that Bun's runtime names. */
const OLDEST_MACOS = "13.0"

/** Throws unless macOS can run the program; programs of other systems pass. */
export function checkMachO({ file, os, cpu }: Pick<Platform, "file" | "os" | "cpu">, program: Uint8Array): void {
  if (os !== "darwin") return
  const bytes = Buffer.from(program.buffer, program.byteOffset, program.byteLength)
  const fail = (problem: string) => new Error(`${file} ${problem}`)
  if (bytes.length < HEADER || bytes.readUInt32LE(0) !== MAGIC_64) throw fail("is not a 64-bit Mach-O file")
  if (bytes.readUInt32LE(4) !== PROCESSORS[cpu] || bytes.readUInt32LE(12) !== EXECUTE)
    throw fail(`is not a program for ${cpu}`)
  const commands = commandsOf(bytes)
  const segments = commands.filter(({ kind }) => kind === SEGMENT_64).map(({ at }) => segmentOf(bytes, at))
  if (segments.some(({ end }) => end > bytes.length)) throw fail("is cut off")
  const libraries = commands
    .filter(({ kind }) => LIBRARIES.has(kind))
    .map(({ at }) => textAt(bytes, at + bytes.readUInt32LE(at + 8)))
  const foreign = libraries.filter((path) => !/^\/(?:usr\/lib|System\/Library)\//.test(path))
  if (foreign.length > 0) throw fail(`needs ${foreign.join(", ")}, which macOS does not have`)
  const build = commands.find(({ kind }) => kind === BUILD_VERSION)
  const oldest = build === undefined ? 0 : bytes.readUInt32LE(build.at + 12)
  if (`${oldest >> 16}.${(oldest >> 8) & 0xff}` !== OLDEST_MACOS)
    throw fail(`is not built for macOS ${OLDEST_MACOS} and newer`)
  const signature = commands.find(({ kind }) => kind === CODE_SIGNATURE)
  if (signature === undefined) throw fail("has no signature")
  const [start, size] = [bytes.readUInt32LE(signature.at + 8), bytes.readUInt32LE(signature.at + 12)]
  const last = segments.find(({ name }) => name === "__LINKEDIT")
  if (start + size !== bytes.length || last?.end !== bytes.length) throw fail("does not end with its signature")
  if (!isSigned(bytes, start)) throw fail("has a signature of other contents")
}

// ---

const HEADER = 32
const MAGIC_64 = 0xfeedfacf
const EXECUTE = 2
const PROCESSORS: Readonly<Record<Cpu, number>> = { x64: 0x01000007, arm64: 0x0100000c }
const SEGMENT_64 = 0x19
const CODE_SIGNATURE = 0x1d
const BUILD_VERSION = 0x32
/** LC_LOAD_DYLIB, LC_LOAD_WEAK_DYLIB and LC_REEXPORT_DYLIB. */
const LIBRARIES: ReadonlySet<number> = new Set([0xc, 0x80000018, 0x8000001f])
const SUPER_BLOB = 0xfade0cc0
const CODE_DIRECTORY = 0xfade0c02
const HASH_BYTES = 32
const SHA256 = 2

function commandsOf(bytes: Buffer): readonly { readonly kind: number; readonly at: number }[] {
  const commands = []
  let at = HEADER
  for (let left = bytes.readUInt32LE(16); left > 0; left--) {
    commands.push({ kind: bytes.readUInt32LE(at), at })
    at += bytes.readUInt32LE(at + 4)
  }
  return commands
}

function segmentOf(bytes: Buffer, at: number): { readonly name: string; readonly end: number } {
  const name = bytes.toString("latin1", at + 8, at + 24).replace(/\0+$/, "")
  return { name, end: Number(bytes.readBigUInt64LE(at + 40) + bytes.readBigUInt64LE(at + 48)) }
}

const textAt = (bytes: Buffer, at: number): string => bytes.toString("latin1", at, bytes.indexOf(0, at))

/** Whether the first code directory of the signature has the SHA-256 of each page before the signature. */
function isSigned(bytes: Buffer, start: number): boolean {
  if (bytes.readUInt32BE(start) !== SUPER_BLOB) return false
  const directory = start + bytes.readUInt32BE(start + 16)
  if (bytes.readUInt32BE(directory) !== CODE_DIRECTORY || bytes.readUInt32BE(directory + 32) !== start) return false
  if (bytes[directory + 36] !== HASH_BYTES || bytes[directory + 37] !== SHA256) return false
  const page = 2 ** (bytes[directory + 39] ?? 0)
  const pages = bytes.readUInt32BE(directory + 28)
  if (pages !== Math.ceil(start / page)) return false
  const hashes = directory + bytes.readUInt32BE(directory + 16)
  return Array.from({ length: pages }, (_, index) => index).every((index) => {
    const contents = bytes.subarray(index * page, Math.min((index + 1) * page, start))
    const hash = new Bun.CryptoHasher("sha256").update(contents).digest()
    return bytes.subarray(hashes + index * HASH_BYTES, hashes + (index + 1) * HASH_BYTES).equals(hash)
  })
}
