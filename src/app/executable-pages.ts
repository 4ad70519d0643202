/**
 * Releases the pages of svc's own executable that a start or a busy period has used, which are most of the resident memory of
 * an idle svc. These pages equal the file: the kernel drops them, and maps them again from its cache at the next use.
 */
import { dlopen, type Pointer } from "bun:ffi"
import { closeSync, openSync, readFileSync, readSync } from "node:fs"

/** Addresses from the first to before the last. */
export type AddressRange = readonly [from: number, to: number]

/** Releases the pages. Linux only. Throws if the system does not reveal the mappings. */
export function dropExecutablePages(): void {
  const ranges = unchangedRanges(readFileSync("/proc/self/smaps", "latin1"), process.execPath)
  // An update has put another file in its place, which says nothing of this process.
  if (ranges.length === 0) return
  // The libc of glibc; musl's loader takes the name for its own.
  const { symbols, close } = dlopen("libc.so.6", {
    madvise: { args: ["ptr", "u64", "i32"], returns: "i32" },
    getpagesize: { args: [], returns: "i32" },
  })
  try {
    const pageSize = symbols.getpagesize()
    const bundle = bundleIn(readSlices(process.execPath), pageSize)
    const known = bundle !== undefined && isUnchanged(bundle, pageSize) ? [...ranges, bundle] : ranges
    for (const [from, to] of known) symbols.madvise(from as Pointer, to - from, MADV_DONTNEED)
  } finally {
    close()
  }
}

/**
 * Returns the address ranges of a file, in a text of /proc/PID/smaps, in which no page can differ from the file: ranges that
 * are read-only and have no written pages. From: proc_pid_smaps(5).
 */
export function unchangedRanges(smaps: string, file: string): readonly AddressRange[] {
  return smaps.split(/^(?=[\da-f]+-[\da-f]+ )/m).flatMap((mapping): readonly AddressRange[] => {
    const [, from = "", to = "", name] = /^([\da-f]+)-([\da-f]+) r-[x-]p \S+ \S+ \d+ +(.+)$/m.exec(mapping) ?? []
    return name === file && /^Anonymous: +0 kB$/m.test(mapping)
      ? [[Number.parseInt(from, 16), Number.parseInt(to, 16)]]
      : []
  })
}

/** Reads `length` bytes of a file from `at`. */
export type ReadSlice = (at: number, length: number) => Buffer

/**
 * Returns the address range of the bundle: the whole pages of the section into which Bun compiles it. Undefined if there are
 * none, or the executable has no fixed address. From: elf(5), 64 bits.
 */
export function bundleIn(read: ReadSlice, pageSize: number): AddressRange | undefined {
  const header = read(0, ELF_HEADER_BYTES)
  if (header.readUInt32BE(0) !== ELF_MAGIC || header.readUInt16LE(16) !== ET_EXEC) return undefined
  const table = read(Number(header.readBigUInt64LE(40)), header.readUInt16LE(60) * SECTION_BYTES)
  const sections = Array.from({ length: header.readUInt16LE(60) }, (_, index) => {
    const section = table.subarray(index * SECTION_BYTES)
    const [address = 0, offset = 0, size = 0] = [16, 24, 32].map((at) => Number(section.readBigUInt64LE(at)))
    return { nameAt: section.readUInt32LE(0), address, offset, size }
  })
  const texts = sections[header.readUInt16LE(62)]
  const names = texts === undefined ? "" : read(texts.offset, texts.size).toString("latin1")
  const bundle = sections.find(({ nameAt }) => names.startsWith(`${BUNDLE}\0`, nameAt))
  if (bundle === undefined) return undefined
  const from = Math.ceil(bundle.address / pageSize) * pageSize
  const to = Math.floor((bundle.address + bundle.size) / pageSize) * pageSize
  return from < to ? [from, to] : undefined
}

// ---

/** From: madvise(2). */
const MADV_DONTNEED = 4
const ELF_HEADER_BYTES = 64
const ELF_MAGIC = 0x7f454c46
const ET_EXEC = 2
const SECTION_BYTES = 64
const BUNDLE = ".bun"
const PAGEMAP_BYTES = 8

function readSlices(file: string): ReadSlice {
  return (at, length) => {
    const bytes = Buffer.alloc(length)
    const handle = openSync(file, "r")
    try {
      return bytes.subarray(0, readSync(handle, bytes, 0, length, at))
    } finally {
      closeSync(handle)
    }
  }
}

/**
 * Whether this process has written to no page of a writable range. Bun does not write to its bundle; a version that did would
 * have done so at the start. From: proc_pid_pagemap(5).
 */
function isUnchanged([from, to]: AddressRange, pageSize: number): boolean {
  const pages = (to - from) / pageSize
  const map = readSlices("/proc/self/pagemap")((from / pageSize) * PAGEMAP_BYTES, pages * PAGEMAP_BYTES)
  const flags = Array.from({ length: map.length / PAGEMAP_BYTES }, (_, page) => map.readUInt8(page * PAGEMAP_BYTES + 7))
  return flags.length === pages && flags.every((flag) => (flag & (PRESENT | SWAPPED)) === 0 || (flag & OF_FILE) !== 0)
}

/** Bits of the highest byte of an entry of pagemap. */
const PRESENT = 0x80
const SWAPPED = 0x40
const OF_FILE = 0x20
