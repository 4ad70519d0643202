/** Signatures of minisign 0.11, and those that scripts/release/minisign.ts makes. */
import { expect, test } from "bun:test"
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { readSigningKey, signMinisign } from "../../scripts/release/minisign.ts"
import { verifyMinisign } from "../../src/lib/minisign.ts"

const PUBLIC = "RWRhiXAgF9wuUZS9y6swbu19s5A59jdeKysc6hz/zJ43Tpe5nyfWJvd1"
const SECRET = `untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAYYlwIBfcLlFFRfaYlwI7ITvEkrjGYEry+0UBTzRtJD/Y+6l9GzxKbZS9y6swbu19s5A59jdeKysc6hz/zJ43Tpe5nyfWJvd1AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
`
const FILE = Buffer.from("hi\n")
const OF_MINISIGN = `untrusted comment: signature from minisign secret key
RURhiXAgF9wuUUloBghRdITYKgzYom4Q1PSN61oPlT8Q5+gJsSUncVo6pwOB6FJHGhV6MfrDxY6GMF/mguSlfYJN4nBZd3zIqws=
trusted comment: timestamp:1795351751	file:f	hashed
z05pzQ7SHUNTbjF9wLv4/0xMBBtE8Nmbl6LiZ8lOpwg21aGU9nScn5Kvn85Kyeui/3gBt6bPov4QzhfSzyBHAg==
`
const key = readSigningKey(SECRET)
const own = signMinisign(FILE, key, "svc 1.2.3")

test("a signature of minisign is accepted, and its trusted comment returned", () => {
  expect(verifyMinisign(FILE, OF_MINISIGN, PUBLIC)).toBe("timestamp:1795351751\tfile:f\thashed")
  expect(verifyMinisign(FILE, OF_MINISIGN.replaceAll("\n", "\r\n"), `untrusted comment: key\n${PUBLIC}\n`)).toContain(
    "f",
  )
})

test("a signature of a release is accepted with the public key of its secret key", () => {
  expect(key.publicKey).toBe(PUBLIC)
  expect(verifyMinisign(FILE, own, PUBLIC)).toBe("svc 1.2.3")
})

test("minisign accepts a signature of a release", () => {
  const minisign = Bun.which("minisign")
  if (minisign === null) return
  const folder = mkdtempSync(join(tmpdir(), "svc-minisign-"))
  writeFileSync(join(folder, "f"), FILE)
  writeFileSync(join(folder, "f.minisig"), own)
  const { exitCode, stdout } = Bun.spawnSync([minisign, "-V", "-P", PUBLIC, "-m", "f"], { cwd: folder })
  expect([exitCode, stdout.toString()]).toEqual([
    0,
    "Signature and comment signature verified\nTrusted comment: svc 1.2.3\n",
  ])
})

test("a changed file, a changed comment, another key and other text are rejected with the reason", () => {
  const other = Buffer.from(PUBLIC, "base64")
  const sameId = Buffer.from(other)
  other[2] = (other[2] ?? 0) ^ 1
  sameId[20] = (sameId[20] ?? 0) ^ 1
  const cases: readonly [string, Uint8Array, string, string][] = [
    ["does not match the file", Buffer.from("ho\n"), own, PUBLIC],
    ["does not match its trusted comment", FILE, own.replace("1.2.3", "1.2.4"), PUBLIC],
    ["made with another key", FILE, own, other.toString("base64")],
    ["does not match the file", FILE, own, sameId.toString("base64")],
    ["unknown algorithm", FILE, own.replace("RUR", "RUV"), PUBLIC],
    ["not in the format of minisign", FILE, own.split("\n").slice(0, 2).join("\n"), PUBLIC],
    ["not in the format of minisign", FILE, "", PUBLIC],
    ["public key is not in the format of minisign", FILE, own, "AAAA"],
  ]
  for (const [reason, file, signature, publicKey] of cases)
    expect(() => verifyMinisign(file, signature, publicKey)).toThrow(reason)
})

test("a secret key with a password, and what is no key, are rejected", () => {
  const bytes = Buffer.from(SECRET.trim().split("\n").at(-1) ?? "", "base64")
  bytes.write("Sc", 2)
  expect(() => readSigningKey(bytes.toString("base64"))).toThrow("encrypted with a password")
  expect(() => readSigningKey(PUBLIC)).toThrow("not a secret key of minisign")
})
