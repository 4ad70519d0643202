import { expect, test } from "bun:test"
import fc from "fast-check"
import { readZip } from "../../src/registry/zip.ts"
import { type ZipFile, zipOf } from "../fixtures/bundle.ts"

const BOUNDS = { maxFiles: 10, maxBytes: 10_000 }
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)

test("what was packed comes out, packed tightly or not, folders left out, with a signature behind it", async () => {
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
  ["leaves the folder", [{ path: "../evil" }], "would not be in its folder"],
  ["leaves the folder from within", [{ path: "a/../../evil" }], "would not be in its folder"],
  ["is absolute", [{ path: "/etc/evil" }], "would not be in its folder"],
  ["has a drive", [{ path: "C:/evil" }], "would not be in its folder"],
  ["has backslashes", [{ path: "..\\evil" }], "would not be in its folder"],
  ["has no name", [{ path: "a//b" }], "would not be in its folder"],
  ["has a NUL", [{ path: "a\0b" }], "would not be in its folder"],
  ["is a symbolic link", [{ path: "link", content: "/etc", mode: 0o120777 }], "is a link"],
  ["is a device", [{ path: "null", mode: 0o020666 }], "is a link, or no file at all"],
  ["is encrypted", [{ path: "x", flags: 1 }], "is encrypted"],
  ["is packed otherwise", [{ path: "x", method: 99 }], "does not know (99)"],
  ["is one too many", Array.from({ length: 11 }, (_, n) => ({ path: `f${n}` })), "more than 10 files"],
  ["is too large", [{ path: "x", content: "0".repeat(10_001) }], "larger than 10000 bytes"],
  ["is too large with the others", Array.from({ length: 3 }, (_, n) => ({ path: `f${n}`, size: 4000 })), "larger than"],
]
test.each(unsound)("a file that %s is refused", (_name, files, message) => {
  expect(() => readZip(zipOf([{ path: "fine" }, ...files]), BOUNDS)).toThrow(message)
})

test("a bomb that says it is small is not made larger than it says", async () => {
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

test("what is no archive, or half of one, is refused and never read beyond its end", async () => {
  for (const bytes of [Buffer.from(""), Buffer.from("<html>"), Buffer.alloc(100)])
    expect(() => readZip(bytes)).toThrow("no zip archive")
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
        // It says what is wrong, in words of its own.
        const failure = await read().then(
          () => undefined,
          (error: unknown) => error,
        )
        if (failure !== undefined) expect(String(failure)).toMatch(/^Error: (?:it |unpacked |")|packed in a way/)
      }
    }),
    { numRuns: 300 },
  )
})
