import { describe, expect, test } from "bun:test"
import fc from "fast-check"
import { createLiveRedactor, createRedactor, patternNames } from "../../src/lib/redact.ts"

const { maskCredentials: mask, redactAll: redact } = createRedactor([])

test("the patterns are pinned", () => {
  expect(patternNames()).toEqual([
    "private key",
    "jwt",
    "token by its prefix",
    "prefix and random letters",
    "random letters",
    "webhook",
    "cookies",
    "authorization",
    "scheme and token",
    "user and password",
    "password at host",
    "password of a user",
    "user/password@host",
    "key and quoted value",
    "key and value",
    "braced password",
    "key and random value",
    "names and values apart",
    "element and value",
    "name, space and value",
    "name of a key, space and value",
    "one-time code",
    "phrase",
    "quoted phrase",
    "mask of a workflow",
    "recovery words",
    "password of a person",
    "passwords in a list",
    "password flag of a command",
    "password joined to its flag",
    "flag and value",
    "secret parameter",
    "quoted path",
    "url",
    "address in a repository's form",
    "e-mail",
    "unc path",
    "windows path",
    "ipv6 with an ipv4",
    "address without a scheme",
    "host and port",
    "internal host",
    "host of a failed connection",
    "host that was looked up",
    "host without an address",
    "host that cannot be reached",
    "unix path",
    "relative path",
    "ipv4",
    "ipv6",
    "short ipv6",
  ])
})

describe("credentials are hidden [health:sanitize:credentials]", () => {
  const S = "hunter2hunter2"
  test.each([
    [`postgres://bob:${S}@db/x`],
    [`bob:${S}@db.internal refused`],
    [`Authorization: Bearer ${S}`],
    [`authorization: basic ${S}==`],
    [`api_key=${S}`],
    [`API-KEY: ${S}`],
    [`{"token": "${S}"}`],
    [`{"a":"{\\"client_secret\\":\\"${S}\\"}"}`],
    [`{\\\\\\"password\\\\\\": \\\\\\"${S}\\\\\\"}`],
    [`password='${S} with spaces'`],
    [`{"token": "a\\"${S}"}`],
    [`{\\"token\\": \\"a\\\\\\"${S}\\"}`],
    [`cut off: token="a ${S}`],
    [`Invalid API key: ${S}`],
    [`user=ada pass=${S}`],
    [`GITHUB_TOKEN=${S}`],
    [`x-api-key: ${S}`],
    [`run --token ${S} now`],
    [`run --api-key=${S} now`],
    [`?access_token=${S}&x=1`],
    [`token%3D${S}`],
    [`token%253D${S}`],
    [`first line\nsecret: ${S}\nlast line`],
    [`sk-${S}`],
    [`ghp_${S}AAAA`],
    [`xoxb-${S}`],
    [`eyJ${S}.${S}.${S}`],
    [`-----BEGIN RSA PRIVATE KEY-----\n${S}\n-----END RSA PRIVATE KEY-----`],
  ])("%s", (text) => {
    expect(redact(text)).not.toContain(S)
    if (!text.includes("%")) expect(mask(text)).not.toContain(S)
  })

  test("long values up to their end", () => {
    for (const mark of ["", '"']) expect(mask(`token=${mark}${"a".repeat(5000)}${S}`)).not.toContain(S)
  })

  test("AWS keys", () => expect(mask("key AKIAIOSFODNN7EXAMPLE used")).toBe("key [REDACTED] used"))
})

describe("paths and addresses are hidden from clients, and kept in the log [health:sanitize:places]", () => {
  test.each([
    ["connect http://internal.host:8080/x?y failed", "connect [URL] failed"],
    ["open /home/ada/.config/svc/mcp.json: denied", "open [PATH]: denied"],
    ["spawn ~/bin/x", "spawn [PATH]"],
    ["in C:\\Users\\Ada\\x.json", "in [PATH]"],
    ["in \\\\server\\share\\x", "in [PATH]"],
    ["in C:\\Users\\Ada Lovelace\\x.json again", "in [PATH] again"],
    ["open '/home/ada/my notes.txt'", "open '[PATH]'"],
    ['open "C:\\My Files\\my notes.txt"', 'open "[PATH]"'],
    ["ECONNREFUSED 192.168.17.4:3000", "ECONNREFUSED 192.168.x.x:3000"],
    ["to 2001:db8:1:2:3:4:5:6 and ::1 and fe80::1:2", "to [IPv6] and [IPv6] and [IPv6]"],
    ["mail ada@example.com now", "mail [EMAIL] now"],
    ["no time-mcp@1.0.5. Look into /tmp/a.", "no time-mcp@1.0.5. Look into [PATH]."],
    ["file%3A%2F%2F%2Fhome%2Fada", "[URL]"],
    ["at 12:34:56 it was 1/2 and/or 3.4.5", "at 12:34:56 it was 1/2 and/or 3.4.5"],
  ])("%s", (text, expected) => {
    expect(redact(text)).toBe(expected)
  })

  test("the log keeps them", () => {
    const text = "open /home/ada/x: http://h/x from 192.168.1.2"
    expect(mask(text)).toBe(text)
  })
})

test.each([
  ["see [https://h.example/x?token=abc123def456] now", "see [[URL]] now"],
  ["see (https://h.example/x?token=abc123def456) now", "see ([URL]) now"],
  ["[/home/ada/x.ts:3] failed", "[[PATH]] failed"],
  ["GET /app/[id] failed", "GET [PATH] failed"],
  ["“/home/ada/My Files/x” and “https://h.example/x” failed", "“[PATH]” and “[URL]” failed"],
  ["127.0.0.1:4567 closed the connection without an answer", "127.0.x.x:4567 closed the connection without an answer"],
  ["in node_modules/@acme/private-lib/index.js", "in [PATH]"],
  ["import @acme/private-lib/index.js", "import @acme/private-lib/index.js"],
])("what surrounds a place stays whole: %s", (text, expected) => {
  expect(redact(text)).toBe(expected)
})

test("plain words after the name of a scheme are kept", () => {
  const { maskCredentials } = createRedactor([])
  for (const text of [
    "Basic Memory is a server",
    "basic authentication.",
    "a daily digest email, sorted",
    "Basic Math",
  ])
    expect(maskCredentials(text)).toBe(text)
  for (const text of [
    "basic dXNlcjpwYXNz",
    "Basic abcdefgh=",
    "digest username=x",
    "bearer abcdefgh",
    "Basic abcDefgh",
  ])
    expect(maskCredentials(text)).toMatch(/^\w+ \[REDACTED\]$/)
})

test("known secrets are found in every encoding", () => {
  const secret = fc
    .string({ minLength: 6, maxLength: 40 })
    .filter((text) => text.trim().length >= 6 && text.isWellFormed())
  fc.assert(
    fc.property(secret, fc.string(), (value, around) => {
      const cleaner = createRedactor([value])
      for (const spelling of [
        value,
        JSON.stringify(value).slice(1, -1),
        encodeURIComponent(value),
        Buffer.from(value).toString("base64"),
      ])
        expect(
          cleaner.maskCredentials(`${around} ${spelling} end`).includes(spelling) && !"[REDACTED]".includes(spelling),
        ).toBe(false)
    }),
  )
})

test("known secrets of several lines, and beyond ASCII, are found in logs and in JSON within JSON [secrets:hidden]", () => {
  const secret = 'first line of it\n{\n"pass": "zażółć \\ \'gęślą"}'
  const { maskKnown } = createRedactor([secret])
  const ascii = (text: string) =>
    text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
  const nested = JSON.stringify(JSON.stringify({ secret }))
  for (const text of [secret, nested, ascii(nested), ascii(JSON.stringify({ secret })), ...secret.split("\n")])
    expect(maskKnown(text)).not.toMatch(/first line|pass|za/)
  // A short line is no secret by itself.
  expect(maskKnown("{")).toBe("{")
})

test("known secrets in a URL are hidden in every encoding", () => {
  const secret = "a/b#c;d e%41ä'!"
  const { redactAll } = createRedactor([secret])
  const once = encodeURIComponent(secret)
  for (const spelling of [
    once,
    encodeURIComponent(once),
    once.toLowerCase(),
    encodeURI(secret),
    new URLSearchParams({ x: secret }).toString(),
  ])
    expect(redactAll(`at ${spelling} end`)).toMatch(/^at (x=)?\[REDACTED\] end$/)
})

test("every text takes linear time", () => {
  const pieces = [
    "a",
    "/",
    "\\",
    ":",
    "@",
    "=",
    "token",
    "eyJ",
    ".",
    "-",
    '"',
    "token=",
    "http://",
    "1.",
    "::",
    "%3d",
    "bearer ",
    "-----BEGIN PRIVATE KEY-----",
    "/a b",
    "eyJ-",
    "www./",
    ".\\",
    "/A B",
    "token a",
    "a1B",
    "a_",
    "a=b;",
    "cookie: a=b; ",
    "a.b:",
    "www.",
    "\\\\a ",
    "x@y:",
    "::1:",
    "',",
    "<token>",
    "authorization: a b,c=",
    "A ",
    "a@",
  ]
  for (const piece of pieces) {
    const text = piece.repeat(Math.ceil(400_000 / piece.length))
    // A quadratic pattern would need hours here, not this test's seconds.
    expect(mask(text).length).toBeGreaterThan(0)
    expect(redact(text).length).toBeGreaterThan(0)
  }
})

test("a known secret is hidden in another case and with other white space [secrets:errors]", () => {
  const { maskKnown } = createRedactor(["Canary-In-Host", "first word second"])
  expect(maskKnown("https://canary-in-host.example/ CANARY-IN-HOST")).toBe("https://[REDACTED].example/ [REDACTED]")
  expect(maskKnown("first  word\nsecond, first+word+second")).toBe("[REDACTED], [REDACTED]")
})

test("a live redactor works before it has sources, and follows their secrets", () => {
  const { cleaner, follow } = createLiveRedactor()
  expect(cleaner().maskKnown("first-secret second-secret")).toBe("first-secret second-secret")
  let planned: readonly string[] = ["first-secret"]
  follow([() => planned, () => []])
  expect(cleaner().maskKnown("first-secret second-secret")).toBe("[REDACTED] second-secret")
  expect(cleaner().maskKnown("first-secret")).toBe("[REDACTED]")
  planned = ["second-secret"]
  expect(cleaner().maskKnown("first-secret second-secret")).toBe("first-secret [REDACTED]")
  follow([() => ["third-secret"]])
  expect(cleaner().maskKnown("second-secret third-secret")).toBe("[REDACTED] [REDACTED]")
})

test("a live redactor builds its pattern again only for other secrets, whatever arrays its sources return", () => {
  const { cleaner, follow } = createLiveRedactor()
  let secrets = ["first-secret"]
  follow([() => [...secrets], () => []])
  const first = cleaner()
  expect(cleaner()).toBe(first)
  secrets = ["other-secret"]
  const second = cleaner()
  expect(second).not.toBe(first)
  expect(second.maskKnown("first-secret other-secret")).toBe("first-secret [REDACTED]")
  secrets = ["other-secret", "third-secret"]
  expect(cleaner().maskKnown("third-secret")).toBe("[REDACTED]")
  secrets = []
  expect(cleaner().maskKnown("other-secret")).toBe("other-secret")
})

test("the address of a sign-in keeps its random parts: a browser must be able to open it", () => {
  const random = fc.noBias(
    fc.uint8Array({ minLength: 16, maxLength: 48 }).map((bytes) => Buffer.from(bytes).toString("base64url")),
  )
  fc.assert(
    fc.property(random, random, random, random, (client, challenge, state, key) => {
      const address = `https://as.example/o/a8Kd03jLmQ92xZvB71TyUwEr5/authorize?client_id=${client}&code_challenge=${challenge}&code_challenge_method=S256&redirect_uri=http%3A%2F%2F127.0.0.1%3A3050%2Foauth%2Fcallback&state=${state}&dpop_jkt=${key}&nonce=${key}`
      expect(mask(`open ${address}`)).toBe(`open ${address}`)
    }),
    { numRuns: 5000 },
  )
})
