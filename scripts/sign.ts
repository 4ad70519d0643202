/**
 * Signs a Mach-O executable ad hoc, as the linker of macOS does. The code that Bun appends to its runtime breaks the
 * runtime's signature, and for x64 Bun makes no new one; macOS kills a program with a broken signature.
 *
 *  1. The signature is one code directory with the SHA-256 of each page before it. It needs no certificate.
 *  2. The signature ends the file, and its segment grows or shrinks with it.
 */

/** Returns the file with its signature replaced. Throws unless it is a 64-bit Mach-O file with a signature. */
export function signAdHoc(file: Uint8Array, identifier: string): Uint8Array {
  const { signature, linkedit, text } = commandsOf(viewOf(file))
  const at = viewOf(file).getUint32(signature + 8, true)
  const name = new TextEncoder().encode(`${identifier}\0`)
  const pages = Math.ceil(at / PAGE)
  const directory = HEADER + name.length + pages * HASH
  const size = 8 + 12 + directory

  const signed = new Uint8Array(at + size)
  signed.set(file.subarray(0, at))
  const view = viewOf(signed)
  view.setUint32(signature + 12, size, true)
  const start = view.getBigUint64(linkedit + 40, true)
  view.setBigUint64(linkedit + 48, BigInt(signed.length) - start, true)
  view.setBigUint64(linkedit + 32, roundUp(BigInt(signed.length) - start), true)

  // A super blob that holds the code directory alone. Signatures are big-endian.
  write(view, at, [0xfade0cc0, size, 1, 0, 20])
  write(view, at + 20, [
    0xfade0c02,
    directory,
    0x20400,
    ADHOC | LINKER_SIGNED,
    HEADER + name.length,
    HEADER,
    0,
    pages,
    at,
  ])
  signed.set([HASH, SHA256, 0, Math.log2(PAGE)], at + 20 + 36)
  // The first segment's place and size, and that this is the main program.
  view.setBigUint64(at + 20 + 64, view.getBigUint64(text + 40, true))
  view.setBigUint64(at + 20 + 72, view.getBigUint64(text + 48, true))
  view.setBigUint64(at + 20 + 80, MAIN_BINARY)
  signed.set(name, at + 20 + HEADER)
  for (let page = 0; page < pages; page++) {
    const bytes = signed.subarray(page * PAGE, Math.min((page + 1) * PAGE, at))
    signed.set(new Bun.CryptoHasher("sha256").update(bytes).digest(), at + 20 + HEADER + name.length + page * HASH)
  }
  return signed
}

// ---

const PAGE = 4096
const HASH = 32
const SHA256 = 2
/** Of a code directory, to the end of its executable segment. */
const HEADER = 88
const ADHOC = 0x2
const LINKER_SIGNED = 0x20000
const MAIN_BINARY = 1n

const MAGIC_64 = 0xfeedfacf
const SEGMENT_64 = 0x19
const CODE_SIGNATURE = 0x1d

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** Rounds up to memory pages of 16 KiB, the largest on a Mac. */
const roundUp = (size: bigint): bigint => ((size + 0x3fffn) / 0x4000n) * 0x4000n

function write(view: DataView, at: number, words: readonly number[]): void {
  for (const [index, word] of words.entries()) view.setUint32(at + index * 4, word)
}

/** Returns the offsets of the load commands that a signature changes. */
function commandsOf(view: DataView): {
  readonly signature: number
  readonly linkedit: number
  readonly text: number
} {
  if (view.getUint32(0, true) !== MAGIC_64) throw new Error("not a 64-bit Mach-O file")
  const found = new Map<string, number>()
  let at = 32
  for (let left = view.getUint32(16, true); left > 0; left--) {
    const kind = view.getUint32(at, true)
    if (kind === CODE_SIGNATURE) found.set("signature", at)
    if (kind === SEGMENT_64) found.set(segmentAt(view, at), at)
    at += view.getUint32(at + 4, true)
  }
  const [signature, linkedit, text] = ["signature", "__LINKEDIT", "__TEXT"].map((name) => found.get(name))
  if (signature === undefined || linkedit === undefined || text === undefined)
    throw new Error("the file has no signature to replace")
  return { signature, linkedit, text }
}

function segmentAt(view: DataView, at: number): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + at + 8, 16)
  return new TextDecoder().decode(bytes).replace(/\0+$/, "")
}
