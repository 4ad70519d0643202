/** Writes archives: tar (ustar) and ar. All files belong to root and have one date, so that the same input gives the same bytes. */

/** A file of an archive. `path` is relative and has no `./`; its folders come by themselves. */
export type PackedFile = { readonly path: string; readonly mode: number; readonly content: Uint8Array }

export const EXECUTABLE = 0o755
export const READABLE = 0o644

/** Returns a file with text. */
export const textFile = (path: string, text: string, mode = READABLE): PackedFile => ({
  path,
  mode,
  content: Buffer.from(text),
})

/** Returns a tar archive. `prefix` precedes each path: `./` in Debian's packages, `package/` in npm's. */
export function tar(files: readonly PackedFile[], date: Date, prefix: string): Buffer {
  const folders = foldersOf(files.map(({ path }) => prefix + path))
  const blocks = folders.flatMap((path) => [tarHeader(`${path}/`, EXECUTABLE, 0, date, "5")])
  for (const { path, mode, content } of files)
    blocks.push(tarHeader(prefix + path, mode, content.length, date, "0"), padded(content, TAR_BLOCK))
  return Buffer.concat([...blocks, Buffer.alloc(2 * TAR_BLOCK)])
}

/** Returns an ar archive, as Debian's packages are. */
export function ar(files: readonly PackedFile[], date: Date): Buffer {
  const parts = files.flatMap(({ path, mode, content }) => [
    Buffer.from(
      `${path.padEnd(16)}${String(seconds(date)).padEnd(12)}${"0".padEnd(6)}${"0".padEnd(6)}${`100${mode.toString(8)}`.padEnd(8)}${String(content.length).padEnd(10)}\`\n`,
    ),
    padded(content, 2),
  ])
  return Buffer.concat([Buffer.from("!<arch>\n"), ...parts])
}

/** Returns a date in seconds since 1970. */
export const seconds = (date: Date): number => Math.floor(date.getTime() / 1000)

// ---

const TAR_BLOCK = 512

/** Returns bytes with zeros after them, up to a multiple of `size`. */
function padded(bytes: Uint8Array, size: number): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((size - (bytes.length % size)) % size)])
}

function foldersOf(paths: readonly string[]): readonly string[] {
  const folders = new Set<string>()
  for (const path of paths) {
    const parts = path.split("/").slice(0, -1)
    for (let depth = 1; depth <= parts.length; depth++) folders.add(parts.slice(0, depth).join("/"))
  }
  return [...folders].sort()
}

function tarHeader(path: string, mode: number, size: number, date: Date, type: "0" | "5"): Buffer {
  if (Buffer.byteLength(path) > 100) throw new Error(`the path is too long for tar: ${path}`)
  const header = Buffer.alloc(TAR_BLOCK)
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at)
  header.write(path, 0)
  octal(mode, 100, 8)
  octal(0, 108, 8)
  octal(0, 116, 8)
  octal(size, 124, 12)
  octal(seconds(date), 136, 12)
  header.write("        ", 148)
  header.write(type, 156)
  header.write("ustar\x0000", 257)
  header.write("root", 265)
  header.write("root", 297)
  const sum = header.reduce((total, byte) => total + byte, 0)
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return header
}
