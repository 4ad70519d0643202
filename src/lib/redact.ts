/**
 * Redaction of text that leaves the process, in three strengths: `maskKnown` hides known secret values; `maskCredentials`, for
 * the log, also hides whatever looks like a credential and keeps paths and addresses, which operators need; `redactAll`, for
 * health bodies and clients, hides paths and addresses too. spec: Detail levels, Sanitization.
 *
 * Every quantifier is bounded, or matches characters that its neighbours cannot match, so that each text takes linear time.
 */
import { secretWord } from "./secret-names.ts"

/** Functions that hide parts of a text; see above. */
export type Redactor = {
  maskKnown(text: string): string
  maskCredentials(text: string): string
  redactAll(text: string): string
}

/** Creates a redactor that also hides these secret values, in all their encodings. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const known = literals(secrets)
  const maskKnown = (text: string) => (known === undefined ? text : text.replace(known, HIDDEN))
  return {
    maskKnown,
    maskCredentials: (text) => apply(CREDENTIALS, maskKnown(text)),
    redactAll: (text) => apply(PLACES, apply(CREDENTIALS, unescapePercent(text.slice(0, MAX_LENGTH), maskKnown))),
  }
}

/** Creates a redactor that hides the current secrets of its sources. It works before it has sources. */
export function createLiveRedactor(): {
  cleaner(): Redactor
  /** Adds sources. A source returns a new array when its secrets change. */
  follow(sources: readonly (() => readonly string[])[]): void
} {
  let sources: readonly (() => readonly string[])[] = []
  let known: readonly (readonly string[])[] = []
  let current = createRedactor([])
  return {
    cleaner() {
      const now = sources.map((secrets) => secrets())
      if (now.some((secrets, at) => secrets !== known[at])) {
        known = now
        current = createRedactor(now.flat())
      }
      return current
    },
    follow(given) {
      sources = [...sources, ...given]
    },
  }
}

/** Returns the names of the patterns, for the test that pins them. */
export const patternNames = (): readonly string[] => [...CREDENTIALS, ...PLACES].map(({ name }) => name)

// ---

type Pattern = { readonly name: string; readonly find: RegExp; readonly put: string }

const HIDDEN = "[REDACTED]"
const MAX_LENGTH = 64 * 1024
const MIN_SECRET = 6

const SECRET_WORD = secretWord()

const CREDENTIALS: readonly Pattern[] = [
  {
    name: "private key",
    find: /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]{0,8192}?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/g,
    put: HIDDEN,
  },
  { name: "jwt", find: /\beyJ[\w-]{5,8192}\.[\w-]{2,8192}(?:\.[\w-]{0,8192})?/g, put: HIDDEN },
  {
    name: "token by its prefix",
    find: /\b(?:[spr]k[-_](?:live[-_]|test[-_]|proj[-_]|ant[-_])?[\w-]{8,512}|gh[pousr]_\w{8,512}|github_pat_\w{8,512}|glpat-[\w-]{8,512}|xox[abeoprs]-[\w-]{6,512}|(?:AKIA|ASIA)[0-9A-Z]{12,32}|AIza[\w-]{20,64}|npm_\w{16,64}|hf_\w{16,64}|ya29\.[\w-]{8,512}|svc_\w{4,64}_[\w-]{8,512})/g,
    put: HIDDEN,
  },
  {
    name: "scheme and token",
    // A plain word after the last three schemes is no credential: those are base64, or have a `=`.
    find: /\b(bearer|(?:basic|digest|negotiate)(?!\s{1,8}(?-i:[A-Z]?[a-z]{1,40})(?:[.:,]?\s|[.:]?$)))(\s{1,8}|%20)[\w.~+/=:-]{4,8192}/gi,
    put: `$1 ${HIDDEN}`,
  },
  { name: "user and password", find: /\b([a-z][a-z0-9+.-]{0,30}:\/\/)[^\s/@"'<>]{1,512}@/gi, put: `$1${HIDDEN}@` },
  { name: "password at host", find: /(?<![\w.+-])[\w.+-]{1,64}:[^\s:@/"'<>]{1,256}@(?=[\w[])/g, put: `${HIDDEN}@` },
  {
    name: "key and quoted value",
    find: new RegExp(
      `((?<![a-z0-9])[\\w-]{0,32}?(?:${SECRET_WORD})[\\w-]{0,32}\\\\{0,8}["']?\\s{0,8}[:=]\\s{0,8})(\\\\{0,8}["'])(?:(?!(?<!\\\\)\\2)[^\\r\\n])+(?:\\2|(?=[\\r\\n]|$))`,
      "gi",
    ),
    put: `$1$2${HIDDEN}$2`,
  },
  {
    name: "key and value",
    find: new RegExp(
      `((?<![a-z0-9])[\\w-]{0,32}?(?:${SECRET_WORD})[\\w-]{0,32}["']?\\s{0,8}[:=]\\s{0,8})(?!\\\\{0,8}["']|\\[REDACTED)[^\\s,;&"'\`)}\\]]+`,
      "gi",
    ),
    put: `$1${HIDDEN}`,
  },
  {
    name: "flag and value",
    find: new RegExp(`(--[\\w-]{0,32}?(?:${SECRET_WORD}|key)[\\w-]{0,32}(?:\\s{1,8}|=))(?!\\[REDACTED)[^\\s"']+`, "gi"),
    put: `$1${HIDDEN}`,
  },
]

const PLACES: readonly Pattern[] = [
  // A quoted path may have spaces.
  { name: "quoted path", find: /(["'])(?:[a-z]:[\\/]|~?\/|\\\\)(?:(?!\1)[^\r\n]){1,4096}\1/gi, put: "$1[PATH]$1" },
  { name: "url", find: /\b[a-z][a-z0-9+.-]{1,30}:\/\/[^\s"'<>`]{1,4096}/gi, put: "[URL]" },
  // No domain ends in a number: `name@1.0.5` is a package.
  {
    name: "e-mail",
    find: /(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,7}\.[a-z][\w-]{1,62}/gi,
    put: "[EMAIL]",
  },
  { name: "unc path", find: /\\\\[^\s\\/"'<>|]{1,255}[\\/][^\s"'<>|]{0,4096}/g, put: "[PATH]" },
  // A space belongs to the path if another folder follows.
  {
    name: "windows path",
    find: /(?<![a-z0-9])[a-z]:[\\/](?:[^\s"'<>|]| (?=[^\s\\/"'<>|:]{1,64}\\)){0,4096}/gi,
    put: "[PATH]",
  },
  { name: "unix path", find: /(?<![\w\]])(?:~|\.{1,2})?\/[\w.@+~%-][^\s"'<>|`,;()]{0,4096}(?<![:.])/g, put: "[PATH]" },
  { name: "ipv4", find: /(?<![\d.])(\d{1,3})\.(\d{1,3})\.\d{1,3}\.\d{1,3}(?![\d.]*\d)/g, put: "$1.$2.x.x" },
  { name: "ipv6", find: /(?<![\w:])([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])/gi, put: "[IPv6]" },
  {
    name: "short ipv6",
    find: /(?<![\w:])(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?(?![\w:])/gi,
    put: "[IPv6]",
  },
]

function apply(patterns: readonly Pattern[], text: string): string {
  return patterns.reduce((cleaned, { find, put }) => cleaned.replace(find, put), text)
}

/** Undoes percent-encoding, three times at most; `hide` sees the text of each round. */
function unescapePercent(text: string, hide: (text: string) => string): string {
  let decoded = hide(text)
  for (let rounds = 0; rounds < 3 && decoded.includes("%"); rounds++) {
    const next = decoded
      .replace(/%(?:[2-6][0-9a-f]|7[0-9a-e])/gi, (code) => String.fromCharCode(Number.parseInt(code.slice(1), 16)))
      .replace(/(?:%[89a-f][0-9a-f])+/gi, decodeLetters)
    if (next === decoded) break
    decoded = hide(next)
  }
  return decoded
}

/** Decodes percent-encoded UTF-8; returns other text unchanged. */
function decodeLetters(codes: string): string {
  try {
    return decodeURIComponent(codes)
  } catch {
    return codes
  }
}

/** Returns one RegExp for all secrets in all encodings, the longest first. */
function literals(secrets: Iterable<string>): RegExp | undefined {
  const spellings = new Set<string>()
  for (const secret of secrets) {
    if (secret.length < MIN_SECRET) continue
    const bytes = Buffer.from(secret)
    const encoded = encodeURIComponent(secret.toWellFormed())
    for (const spelling of [
      secret,
      JSON.stringify(secret).slice(1, -1),
      secret.replaceAll(" ", "+"),
      encoded,
      encoded.replaceAll("%20", "+"),
      encoded.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
      bytes.toString("base64"),
      bytes.toString("base64url"),
      bytes.toString("hex"),
    ])
      spellings.add(spelling)
  }
  if (spellings.size === 0) return undefined
  const sorted = [...spellings].sort((a, b) => b.length - a.length)
  // A text may have been normalized: hosts are lower-cased, lines are wrapped.
  const patterns = sorted.map((spelling) => RegExp.escape(spelling).replace(/(?:\\x20| )+/g, "\\s+"))
  return new RegExp(patterns.join("|"), "gi")
}
