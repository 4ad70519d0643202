import { expect, test } from "bun:test"
import fc from "fast-check"
import { readZip } from "../../../src/features/registry/zip.ts"
import { type ZipFile, zipOf } from "../../fixtures/bundle.ts"

const BOUNDS = { maxFiles: 10, maxBytes: 10_000 }
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

test("files are unpacked, deflated or stored, without folders, and with a signature behind the archive", async () => {
  const bytes = zipOf([
    { path: "a/", mode: 0o040755 },
    { path: "a/b.txt", content: "hello" },
    { path: "run", content: "x".repeat(500), mode: 0o100755, method: 0 },
    { path: "empty" },
  ])
  const signed = Buffer.concat([bytes, Buffer.from("MCPB_SIG_V1 something MCPB_SIG_END")])
  for (const archive of [bytes, signed]) {
    const files = readZip(archive)
    expect(files.map(({ path, executable }) => [path, executable])).toEqual([
      ["a/b.txt", false],
      ["run", true],
      ["empty", false],
    ])
    expect((await Promise.all(files.map(({ read }) => read()))).map(text)).toEqual(["hello", "x".repeat(500), ""])
  }
})

const unsound: readonly (readonly [string, readonly ZipFile[], string])[] = [
  ["leaves the folder", [{ path: "../evil" }], "unsafe path"],
  ["leaves the folder from within", [{ path: "a/../../evil" }], "unsafe path"],
  ["is absolute", [{ path: "/etc/evil" }], "unsafe path"],
  ["has a drive", [{ path: "C:/evil" }], "unsafe path"],
  ["has backslashes", [{ path: "..\\evil" }], "unsafe path"],
  ["has no name", [{ path: "a//b" }], "unsafe path"],
  ["has a NUL", [{ path: "a\0b" }], "unsafe path"],
  ["is a symbolic link", [{ path: "link", content: "/etc", mode: 0o120777 }], "is a link"],
  ["is a device", [{ path: "null", mode: 0o020666 }], "is a link or a special file"],
  ["is encrypted", [{ path: "x", flags: 1 }], "is encrypted"],
  ["has an unknown compression", [{ path: "x", method: 99 }], "does not support (99)"],
  ["is one too many", Array.from({ length: 11 }, (_, n) => ({ path: `f${n}` })), "more than 10 files"],
  ["is too large", [{ path: "x", content: "0".repeat(10_001) }], "larger than 10000 bytes"],
  ["is too large with the others", Array.from({ length: 3 }, (_, n) => ({ path: `f${n}`, size: 4000 })), "larger than"],
]
test.each(unsound)("a file that %s is rejected", (_name, files, message) => {
  expect(() => readZip(zipOf([{ path: "fine" }, ...files]), BOUNDS)).toThrow(message)
})

test("a file with another size than its directory says is damaged, and never unpacked beyond that size", async () => {
  const [bomb, short] = readZip(
    zipOf([
      { path: "bomb", content: new Uint8Array(5_000_000), size: 10 },
      { path: "short", content: "abc", size: 10 },
    ]),
    BOUNDS,
  )
  await expect(bomb?.read()).rejects.toThrow("damaged")
  await expect(short?.read()).rejects.toThrow("damaged")
})

test.each([0, 8])("a file with another CRC-32 than its directory says is damaged: method %d", async (method) => {
  const [file] = readZip(zipOf([{ path: "x", content: "hello", method, crc: 1 }]))
  await expect(file?.read()).rejects.toThrow('its file "x" is damaged')
})

test("a text, half an archive and a broken one are rejected, and never read beyond their end", async () => {
  for (const bytes of [Buffer.from(""), Buffer.from("<html>"), Buffer.alloc(100)])
    expect(() => readZip(bytes)).toThrow("not a zip archive")
  const whole = zipOf([
    { path: "a", content: "hello world" },
    { path: "b/c", content: "x".repeat(50) },
  ])
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), async (at, byte) => {
      const changed = Buffer.from(whole)
      changed[at] = byte
      for (const bytes of [changed, changed.subarray(0, at)]) {
        const read = async () => Promise.all(readZip(bytes, BOUNDS).map((file) => file.read()))
        // The messages are svc's own.
        const failure = await read().then(
          () => undefined,
          (error: unknown) => error,
        )
        if (failure !== undefined) expect(String(failure)).toMatch(/^Error: (?:its? |")|compression method/)
      }
    }),
    { numRuns: 300 },
  )
})
