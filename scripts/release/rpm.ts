/**
 * Writes RPM packages (format 3 with SHA-256 digests, which every rpm since 4.6 installs): a lead, a header of digests, the
 * header with what the package is, and a compressed cpio archive. No tool of RPM is needed.
 */
import { gzipSync } from "node:zlib"
import { cpio, FILE_TYPE, type PackedFile, padded, seconds } from "./archive.ts"
import { OLDEST_GLIBC } from "./deb.ts"
import { CONFLICTING_PACKAGE, type Cpu, type Facts } from "./facts.ts"

/** Returns the file name of a package. */
export const rpmName = (facts: Facts, cpu: Cpu): string =>
  `${facts.name}-${facts.version}-${RPM_RELEASE}.${RPM_ARCHITECTURES[cpu]}.rpm`

/** Returns a package that installs `files`. */
export function rpm(facts: Facts, cpu: Cpu, files: readonly PackedFile[]): Buffer {
  const sorted = [...files].sort((one, other) => (one.path < other.path ? -1 : 1))
  const archive = cpio(sorted, facts.date)
  const payload = gzipSync(archive)
  const header = section(HEADER_REGION, tagsOf(facts, cpu, sorted, hash("sha256", payload)))
  const signature = section(SIGNATURE_REGION, [
    [269, string(hash("sha1", header))],
    [273, string(hash("sha256", header))],
    [1000, int32(header.length + payload.length)],
    [1004, binary(Buffer.from(hash("md5", header, payload), "hex"))],
    [1007, int32(archive.length)],
  ])
  return Buffer.concat([lead(facts, cpu), padded(signature, 8), header, payload])
}

// ---

/** RPM's name of each architecture. */
const RPM_ARCHITECTURES: Readonly<Record<Cpu, string>> = { x64: "x86_64", arm64: "aarch64" }
const RPM_RELEASE = "1"
/** The tags of the entries that enclose all others of a section, and with which a digest of the section begins. */
const HEADER_REGION = 63
const SIGNATURE_REGION = 62

const LESS = 2
const EQUAL = 8
/** Marks a requirement on rpm itself. */
const RPMLIB = 1 << 24
const SHA256 = 8

type Value = { readonly type: number; readonly count: number; readonly bytes: Buffer }
type Tag = readonly [tag: number, value: Value]

const rpmVersion = ({ version }: Facts): string => version.replace("-", "~")

const hash = (algorithm: "md5" | "sha1" | "sha256", ...parts: readonly Uint8Array[]): string =>
  parts.reduce((hasher, part) => hasher.update(part), new Bun.CryptoHasher(algorithm)).digest("hex")

function int16(...values: readonly number[]): Value {
  const bytes = Buffer.alloc(values.length * 2)
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, index * 2)
  return { type: 3, count: values.length, bytes }
}

function int32(...values: readonly number[]): Value {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4)
  return { type: 4, count: values.length, bytes }
}

const string = (text: string): Value => ({ type: 6, count: 1, bytes: Buffer.from(`${text}\0`) })
const binary = (bytes: Buffer): Value => ({ type: 7, count: bytes.length, bytes })
const strings = (...texts: readonly string[]): Value => ({
  type: 8,
  count: texts.length,
  bytes: Buffer.from(texts.map((text) => `${text}\0`).join("")),
})
const localized = (text: string): Value => ({ ...string(text), type: 9 })

/** Returns the tags of the header, in ascending order. */
function tagsOf(facts: Facts, cpu: Cpu, files: readonly PackedFile[], payloadDigest: string): readonly Tag[] {
  const { name, description, license, publisher, repository, date } = facts
  const version = `${rpmVersion(facts)}-${RPM_RELEASE}`
  const each = (value: number) => files.map(() => value)
  const split = files.map(({ path }) => /^(.*\/)([^/]+)$/.exec(`/${path}`) ?? ["", "/", path])
  const folders = [...new Set(split.map(([, folder = ""]) => folder))]
  const requires = [
    [`libc.so.6(GLIBC_${OLDEST_GLIBC})(64bit)`, "", 0],
    ["rpmlib(CompressedFileNames)", "3.0.4-1", RPMLIB | LESS | EQUAL],
    ["rpmlib(FileDigests)", "4.6.0-1", RPMLIB | LESS | EQUAL],
    ["rpmlib(PayloadFilesHavePrefix)", "4.0-1", RPMLIB | LESS | EQUAL],
    ...(version.includes("~") ? [["rpmlib(TildeInVersions)", "4.10.0-1", RPMLIB | LESS | EQUAL] as const] : []),
  ] as const
  return [
    [100, strings("C")],
    [1000, string(name)],
    [1001, string(rpmVersion(facts))],
    [1002, string(RPM_RELEASE)],
    [1004, localized(description)],
    [1005, localized(description)],
    [1006, int32(seconds(date))],
    [1009, int32(files.reduce((total, { content }) => total + content.length, 0))],
    [1011, string(publisher)],
    [1014, string(license)],
    [1015, string(publisher)],
    [1016, localized("Applications/Internet")],
    [1020, string(repository)],
    [1021, string("linux")],
    [1022, string(RPM_ARCHITECTURES[cpu])],
    [1028, int32(...files.map(({ content }) => content.length))],
    [1030, int16(...files.map(({ mode }) => FILE_TYPE | mode))],
    [1033, int16(...each(0))],
    [1034, int32(...each(seconds(date)))],
    [1035, strings(...files.map(({ content }) => hash("sha256", content)))],
    [1036, strings(...files.map(() => ""))],
    [1037, int32(...each(0))],
    [1039, strings(...files.map(() => "root"))],
    [1040, strings(...files.map(() => "root"))],
    [1044, string(`${name}-${version}.src.rpm`)],
    [1045, int32(...each(0xffffffff))],
    [1047, strings(name)],
    [1048, int32(...requires.map(([, , flags]) => flags))],
    [1049, strings(...requires.map(([required]) => required))],
    [1050, strings(...requires.map(([, least]) => least))],
    [1053, int32(0)],
    [1054, strings(CONFLICTING_PACKAGE)],
    [1055, strings("")],
    [1095, int32(...each(1))],
    [1096, int32(...files.map((_, index) => index + 1))],
    [1097, strings(...files.map(() => ""))],
    [1112, int32(EQUAL)],
    [1113, strings(version)],
    [1116, int32(...split.map(([, folder = ""]) => folders.indexOf(folder)))],
    [1117, strings(...split.map(([, , base = ""]) => base))],
    [1118, strings(...folders)],
    [1124, string("cpio")],
    [1125, string("gzip")],
    [1126, string("9")],
    [5011, int32(SHA256)],
    [5062, string("utf-8")],
    [5092, strings(payloadDigest)],
    [5093, int32(SHA256)],
  ]
}

/** Returns a section: its index, sorted by tag and enclosed by the region, and the data of the entries. */
function section(region: number, tags: readonly Tag[]): Buffer {
  const index: number[][] = []
  const data: Buffer[] = []
  let at = 0
  for (const [tag, { type, count, bytes }] of tags) {
    const gap = alignment(at, type)
    index.push([tag, type, at + gap, count])
    data.push(Buffer.alloc(gap), bytes)
    at += gap + bytes.length
  }
  // The data of the region is an entry of the index that points back over all entries.
  const entries = (index.length + 1) * 16
  const trailer = words([region, 7, 0x100000000 - entries, 16])
  return Buffer.concat([
    Buffer.from([0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0]),
    words([index.length + 1, at + trailer.length]),
    words([region, 7, at, 16]),
    ...index.map(words),
    ...data,
    trailer,
  ])
}

const words = (values: readonly number[]): Buffer => int32(...values).bytes

/** Returns the zeros before a value: 16-bit and 32-bit integers are aligned to their size. */
function alignment(at: number, type: number): number {
  const size = { 3: 2, 4: 4 }[type] ?? 1
  return (size - (at % size)) % size
}

/** Returns the lead: an old form of the header, by which `file` and older tools recognize the package. */
function lead(facts: Facts, cpu: Cpu): Buffer {
  const bytes = Buffer.alloc(96)
  bytes.set([0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, cpu === "x64" ? 1 : 19])
  bytes.write(`${facts.name}-${rpmVersion(facts)}-${RPM_RELEASE}`.slice(0, 65), 10)
  bytes.writeUInt16BE(1, 76)
  bytes.writeUInt16BE(5, 78)
  return bytes
}
