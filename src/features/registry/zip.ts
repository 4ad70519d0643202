/**
 * Reads zip archives in memory. Checks the whole central directory before it unpacks a file: no path leaves the folder, no file
 * is a link, and the number and total size of files are bounded. Checks the CRC-32 of each file.
 */
import { promisify } from "node:util"
import { crc32, inflateRaw } from "node:zlib"

/** A file in an archive. */
export type ZipEntry = {
  /** Relative, with slashes. */
  readonly path: string
  readonly executable: boolean
  /** Unpacks the file. Rejects with an Error unless size and CRC-32 match the directory. */
  read(): Promise<Uint8Array>
}

/** Returns the files of an archive, without its folders. Throws an Error that says what is wrong. */
export function readZip(bytes: Uint8Array, { maxFiles, maxBytes }: ZipLimits = DEFAULT_LIMITS): readonly ZipEntry[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const end = findEnd(view)
  const count = view.getUint16(end + 10, true)
  let at = view.getUint32(end + 16, true)
  if (count === 0xffff || at === 0xffffffff) throw new Error("it is in the zip64 format, which svc does not support")
  if (count > maxFiles) throw new Error(`it has more than ${maxFiles} files`)
  const files: ZipEntry[] = []
  let total = 0
  for (let index = 0; index < count; index++) {
    if (at + DIRECTORY_BYTES > end || view.getUint32(at, true) !== DIRECTORY) throw damaged()
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true))
    const next = at + DIRECTORY_BYTES + (nameLength ?? 0) + (extraLength ?? 0) + (commentLength ?? 0)
    if (next > end) throw damaged()
    const start = at + DIRECTORY_BYTES
    const path = new TextDecoder().decode(bytes.subarray(start, start + (nameLength ?? 0)))
    const mode = view.getUint32(at + 38, true) >>> 16
    const size = view.getUint32(at + 24, true)
    const flags = view.getUint16(at + 8, true)
    check(path, mode, flags)
    total += size
    if (total > maxBytes) throw new Error(`it is larger than ${maxBytes} bytes when unpacked`)
    const place = {
      at: view.getUint32(at + 42, true),
      packed: view.getUint32(at + 20, true),
      size,
      crc: view.getUint32(at + 16, true),
    }
    const method = view.getUint16(at + 10, true)
    if (method !== STORED && method !== DEFLATED)
      throw new Error(`${path} uses a compression method that svc does not support (${method})`)
    if (!path.endsWith("/"))
      files.push({ path, executable: (mode & 0o111) !== 0, read: () => unpack(bytes, path, method, place) })
    at = next
  }
  return files
}

// ---

export type ZipLimits = { readonly maxFiles: number; readonly maxBytes: number }

const DEFAULT_LIMITS: ZipLimits = { maxFiles: 50_000, maxBytes: 1024 * 1024 * 1024 }

const END = 0x06054b50
const END_BYTES = 22
/** The most bytes of a comment, and of a signature after the archive. */
const MAX_TAIL = 256 * 1024
const DIRECTORY = 0x02014b50
const DIRECTORY_BYTES = 46
const LOCAL = 0x04034b50
const LOCAL_BYTES = 30
const STORED = 0
const DEFLATED = 8
const ENCRYPTED = 1
const KIND = 0o170000
/** The file types that are accepted: unspecified, regular file and folder. */
const PLAIN: ReadonlySet<number> = new Set([0, 0o100000, 0o040000])

const damaged = () => new Error("it is damaged, or not a zip archive")

function findEnd(view: DataView): number {
  const last = view.byteLength - END_BYTES
  for (let at = last; at >= Math.max(0, last - MAX_TAIL); at--) if (view.getUint32(at, true) === END) return at
  throw damaged()
}

function check(path: string, mode: number, flags: number): void {
  const quotedPath = JSON.stringify(path.slice(0, 200))
  const parts = path.replace(/\/$/, "").split("/")
  // A colon separates a drive or a stream on Windows.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
  if (/[\\:\u0000-\u001f\ufffd]/.test(path) || parts.some((part) => part === "" || part === "." || part === ".."))
    throw new Error(`it has a file with an unsafe path: ${quotedPath}`)
  if (!PLAIN.has(mode & KIND)) throw new Error(`${quotedPath} is a link or a special file`)
  if ((flags & ENCRYPTED) !== 0) throw new Error(`${quotedPath} is encrypted`)
}

/** The offset of a file's local header, its packed and unpacked sizes, and its CRC-32. */
type ZipPlace = { readonly at: number; readonly packed: number; readonly size: number; readonly crc: number }

async function unpack(
  bytes: Uint8Array,
  path: string,
  method: number,
  { at, packed, size, crc }: ZipPlace,
): Promise<Uint8Array> {
  const damagedFile = () => new Error(`its file ${JSON.stringify(path)} is damaged`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (at + LOCAL_BYTES > bytes.length || view.getUint32(at, true) !== LOCAL) throw damagedFile()
  const start = at + LOCAL_BYTES + view.getUint16(at + 26, true) + view.getUint16(at + 28, true)
  if (start + packed > bytes.length) throw damagedFile()
  const raw = bytes.subarray(start, start + packed)
  // Unpacks no more than the size in the directory: a zip bomb never fills the memory.
  const content =
    method === STORED
      ? raw
      : await promisify(inflateRaw)(raw, { maxOutputLength: Math.max(1, size) }).catch(() => undefined)
  if (content === undefined || content.length !== size || crc32(content) !== crc) throw damagedFile()
  return content
}
