/**
 * Gives back the pages of svc's own executable that a start or a busy period has used: most of an idle svc's resident memory.
 * They are the file's, unchanged: the kernel drops them from this process, and maps them again from its cache at the next use.
 */
import { dlopen, type Pointer } from "bun:ffi"
import { readFileSync } from "node:fs"

/** Gives the pages back. Linux only. Throws if the kernel or libc refuses. */
export function dropExecutablePages(): void {
  const ranges = unchangedRanges(readFileSync("/proc/self/smaps", "latin1"), process.execPath)
  // The libc of glibc; musl's loader takes the name for its own.
  const libc = dlopen("libc.so.6", { madvise: { args: ["ptr", "u64", "i32"], returns: "i32" } })
  for (const [from, to] of ranges) libc.symbols.madvise(from as Pointer, to - from, MADV_DONTNEED)
  libc.close()
}

/**
 * Returns the address ranges of a file in a text of /proc/PID/smaps in which no page can differ from the file: read-only, and
 * none written before they became so. From: proc_pid_smaps(5).
 */
export function unchangedRanges(smaps: string, file: string): readonly (readonly [from: number, to: number])[] {
  return smaps.split(/^(?=[\da-f]+-[\da-f]+ )/m).flatMap((mapping) => {
    const [, from = "", to = "", name] = /^([\da-f]+)-([\da-f]+) r-[x-]p \S+ \S+ \d+ +(.+)$/m.exec(mapping) ?? []
    return name === file && /^Anonymous: +0 kB$/m.test(mapping)
      ? [[Number.parseInt(from, 16), Number.parseInt(to, 16)] as const]
      : []
  })
}

// ---

/** From: madvise(2). */
const MADV_DONTNEED = 4
