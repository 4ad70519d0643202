/** Finds what looks like a key in the settings of a server, a registry or a target of notifications: by the name before it, by its form, or by its place in a URL. Pure. */

import { parseIfJson } from "../lib/json.ts"
import { createRedactor, hiddenSpans } from "../lib/redact.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Path } from "./document.ts"
import { isSecretSetting } from "./oauth-settings.ts"
import { referenceSpans } from "./substitution.ts"

/** A part of a setting that looks like a key. */
export type FoundKey = {
  /** Where the setting is, in the server. */
  readonly path: Path
  /** The key within the setting's text: its first character, and the one after its last. */
  readonly start: number
  readonly end: number
  /** What it is called there, such as `API_KEY` or `--api-key`; undefined if nothing names it. */
  readonly name: string | undefined
}

/**
 * Returns what looks like a key in `env`, `headers`, `oauth`, `args`, `command`, `url` (`serverUrl`, `httpUrl`) and `secret` of a server
 * or another part of mcp.json, in the order of the settings.
 * References and placeholders are none, and neither are settings about keys: `AUTH_TYPE`, `--key-file`, `MAX_TOKENS`. What stands under
 * one of `names` in `env` or `headers` is a key, whatever it looks like.
 */
export function keysIn(server: Params, names: ReadonlySet<string> = new Set()): readonly FoundKey[] {
  const found: FoundKey[] = []
  const within = (path: Path, text: string, from = 0) => {
    for (const { start, end, name } of spansIn(text.slice(from)))
      found.push({ path, start: start + from, end: end + from, name })
  }
  const named = (path: Path, name: string, text: string, from = 0) => {
    if (names.has(name) ? isOpen(text.slice(from)) : isKey(name, text.slice(from)))
      found.push({ path, start: from, end: text.length, name })
    else if (!isPublic(name, text.slice(from))) within(path, text, from)
  }
  for (const section of ["env", "headers"] as const) {
    const values = server[section]
    if (Array.isArray(values))
      for (const [index, entry] of values.entries()) {
        const text = textOf(entry)
        const [whole, name = ""] = /^([^=]*)=/.exec(text) ?? []
        if (whole !== undefined) named([section, index], name, text, whole.length)
      }
    else
      for (const [name, value] of Object.entries(isObject(values) ? values : {}))
        named([section, name], name, textOf(value))
  }
  for (const [name, value] of Object.entries(isObject(server.oauth) ? server.oauth : {}))
    if (isSecretSetting(name) && typeof value === "string" && isOpen(value))
      found.push({ path: ["oauth", name], start: 0, end: value.length, name })
  if (Array.isArray(server.args)) {
    const words = server.args.map(textOf)
    const isContainer = [textOf(server.command), ...words].some((word) => CONTAINER.test(word))
    for (const [index, word] of words.entries()) {
      const flag = words[index - 1] ?? ""
      const isValue = /^--?[a-z]/i.test(flag) && !flag.includes("=") && !word.startsWith("-")
      // `--password=VALUE`, `NAME=VALUE`: all the rest is the value.
      const [head = "", name = ""] = /^(-{0,2}[A-Za-z][\w.-]*)=/.exec(word) ?? []
      if (isValue && (isKey(flag, word) || isShortKey(flag, word)))
        found.push({ path: ["args", index], start: 0, end: word.length, name: flag })
      else if (head !== "" && isKey(name, word.slice(head.length)))
        found.push({ path: ["args", index], start: head.length, end: word.length, name })
      else if (!(isValue && isPublic(flag, word)) && !isPublic(name, word.slice(head.length))) {
        const password = isContainer ? undefined : (passwordOf(flag, word) ?? passwordBesideUser(words, index))
        if (password === undefined) within(["args", index], word)
        else found.push({ path: ["args", index], start: password, end: word.length, name: "password" })
      }
    }
  }
  for (const key of ["command", "url", "serverUrl", "httpUrl"] as const)
    if (typeof server[key] === "string") within([key], server[key])
  // Signs the requests to a webhook.
  if (typeof server.secret === "string" && isOpen(server.secret))
    found.push({ path: ["secret"], start: 0, end: server.secret.length, name: "secret" })
  return found
}

/** Returns a key that was found in a server. */
export function keyText(server: Params, { path: [section = "", member], start, end }: FoundKey): string {
  const value = server[section]
  if (member === undefined) return String(value).slice(start, end)
  const members = Array.isArray(value) || isObject(value) ? (value as Params) : {}
  return String(members[member]).slice(start, end)
}

/** Returns a server with `•••` in place of each key, or of those for which `hides` returns true. */
export function withoutKeys(server: Params, hides: (key: FoundKey) => boolean = () => true): Params {
  const copy: Record<string, unknown> = { ...server }
  // From the end: what stands before keeps its place.
  for (const { path, start, end } of keysIn(server)
    .filter(hides)
    .toSorted((one, other) => other.start - one.start)) {
    const [section = "", member] = path
    // Only what changes is copied: a server that a client sent may be large.
    const value = server[section]
    if (copy[section] === value && member !== undefined)
      copy[section] = Array.isArray(value) ? [...value] : { ...(value as Params) }
    const holder = (member === undefined ? copy : copy[section]) as Record<string | number, unknown>
    const at = member ?? section
    const text = String(holder[at])
    holder[at] = `${text.slice(0, start)}•••${text.slice(end)}`
  }
  return copy
}

// ---

/** Returns the text of a setting. Lists and objects have none: a client may have sent large ones. */
const textOf = (value: unknown): string => (typeof value === "object" ? "" : String(value))

/** Whether the value under a name is a key, by the name. */
const isKey = (name: string, value: string): boolean =>
  (isSecretName(name) &&
    !isAbout(name, value) &&
    !isPublic(name, value) &&
    !(PUBLIC_KEY_NAME.test(name) && !/private|^sk[-_]|:\/\//i.test(value)) &&
    isOpen(value) &&
    !HARMLESS.test(value.trim())) ||
  isHexKey(name, value)

/** Whether a value is a public key or an address by its name and its form: its letters are as random as those of a key. */
const isPublic = (name: string, value: string): boolean =>
  (PUBLIC_KEY_NAME.test(name) || ADDRESS_NAME.test(name)) &&
  !/secret|private|passw/i.test(name) &&
  PUBLIC_FORM.test(value.trim()) &&
  !SECRET_FORM.test(value)

const PUBLIC_KEY_NAME = /(?:^|[_-])(?:(?:public|publishable)[_-]?keys?|pubkey)$/i
const ADDRESS_NAME = /(?:^|[_-])(?:addr(?:ess)?|contract)$/i

/**
 * The forms of public keys and addresses: hexadecimal digits, bech32, base58, `pk_…`, a key of 32 or 65 bytes or in DER, in base64, an account
 * of Stellar or TON, the key of a page, a host and its port.
 */
const PUBLIC_FORM =
  /^(?:0x[\da-fA-F]{40}|(?:0x)?(?:0[2-4])?(?:[\da-fA-F]{64}|[\da-fA-F]{128})|[a-z]{1,12}1[02-9ac-hj-np-z]{38,100}|[1-9A-HJ-NP-Za-km-z]{32,48}|(?:[A-Za-z]{1,8}[-_])?(?:pk|PK|[A-Za-z]{0,8}(?:pub|PUB)(?:[kK]|lic|lishable)?)[-_.][\w.-]{8,512}|[\w+/-]{43}=|B[\w-]{86}=?|M(?:II[A-Z][A-Za-z]jANBgkqhkiG9w0B|IGfMA0GCSqGSIb3DQEB|FkwEwYHKoZIzj0C|HYwEAYHKoZIzj0C|CowBQYDK2V)[\w+/-]{24,2048}={0,2}|G[A-Z2-7]{55}|[EU]Q[\w-]{46}|6L[\w-]{38}|(?:[A-Za-z\d-]{1,63}\.){0,8}[A-Za-z\d-]{1,63}:\d{2,5})$/
/** Keys of services and accounts that have such a form too. */
const SECRET_FORM = /^(?:[a-z]{0,12}sec1|AC|SK|BSA|EAA|AKIA|ASIA|[A-Za-z]{2,6}[0-9a-f]{32,64}$)/

/** Whether the value of `-k` is a key: a program may also have this flag without a value, or with an expression, a name or an identifier. */
const isShortKey = (flag: string, word: string): boolean =>
  flag === "-k" &&
  (HEX.test(word) ||
    (/^[\w-]{20,512}$/.test(word) && isRandom(word)) ||
    (/^[a-z\d]{20,512}$/.test(word) && hasDigits(word)))

/** Whether a value in hexadecimal digits is a key by its name. Under another name it is a commit, a checksum or an identifier. */
const isHexKey = (name: string, value: string): boolean =>
  HEX.test(value) && HEX_NAME.test(name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_"))

/** Whole keys in hexadecimal digits; `0x` begins an address of 40 or a key of 64. */
const HEX = /^(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{48}|(?:0x)?[0-9a-f]{64}|[0-9a-f]{128})$/i
/** The last word of names that are no names of secrets with any other value. */
const HEX_NAME =
  /(?:^|[_-])(?:api|app[_-]?id|access|salt|pepper|seed|hmac|cipher|encryption|wallet|signer|licen[cs]e|subscription|login)$/i
/** Names with such values within a text. */
const HEX_WITHIN = /(?<![\w-])([A-Za-z][\w-]{0,63})["']?\s{0,4}[=:]\s{0,4}["']?((?:0x)?[0-9a-f]{32,128})(?![\w-])/gi

/**
 * Whether a setting is about keys, such as `AUTH_TYPE`, has the name of a field, such as `SORT_KEY=created_at`, or the identifier of a key,
 * such as `APNS_KEY_ID`. Some services call a key itself so: then its form shows it.
 */
const isAbout = (name: string, value: string): boolean =>
  ABOUT.test(name) ||
  (FIELD_KEY.test(name) && FIELD.test(value.trim())) ||
  (KEY_ID.test(name) && createRedactor([]).maskCredentials(value) === value)

/** Names of settings about keys. */
const ABOUT =
  /(?:^|[_-])(?:types?|endpoints?|ur[il]s?|methods?|names?|ttl|expiry|expires|count|limit|length|size|enabled|disabled|required|mode|status|issuer|servers?|providers?|files?|paths?|dir|version|alg|algorithm|level|format|scheme|header|audience|scopes?|realm|region|host|port|timeout|policy|strategy|prefix|domain|tenant|username|user|cmd|command|socket|sock|env|env[_-]?var|variable|arn)$/i

/** Names of settings that select a field or a record; keys may have them too: `COSMOS_PRIMARY_KEY`. */
const FIELD_KEY = /(?:^|[_-])(?:primary|sort|order|partition|foreign|row|range|group|join|cache)[_-]?key$|^-{0,2}key$/i
/** Names of identifiers of keys. */
const KEY_ID = /key[_-]?id$/i
/** The name of a field: one to three words of letters. */
const FIELD = /^[a-z]{1,12}(?:[_-][a-z]{1,12}){0,2}$/i
/** A user without a password before a host. */
const USER = /^[a-z]{1,12}$/i

/** Values that are no keys: switches, small numbers, words for nothing, files, addresses without credentials, placeholders. */
const HARMLESS =
  /^(?:|true|false|yes|no|on|off|none|null|auto|default|enabled|disabled|optional|required|oauth2?|bearer|basic|\d{1,5}|~?\.{0,2}[\\/][^\s]*|[a-z]:[\\/][^\s]*|https?:\/\/[^\s@?]*|op:\/\/\S*|<[^>]*>|\[[^\]]*\]|(?:your|my|the)[-_ ][\w -]*|(?:replace|insert|enter|put|paste|add)[-_ ](?:me|this|here|(?:me|this|here|with|your)[-_ ](?:[a-z]{1,16}[-_ ]){0,5}(?:(?:api)?key|token|secret|password|passphrase|credential|pat|value)s?(?:[-_ ]here)?)|(?:[a-z][a-z0-9]{0,11}[-_]){0,4}(?:x{4,64}|\.{3}|…|\*{3,64})|[x*.•…]+|\$\$\{[^}]*\}|\{\{.*\}\})$/i

/** Whether a text has no reference, and is not empty. */
const isOpen = (text: string): boolean => text !== "" && !/(?<!\$)(?:\$\$)*\$(?:[A-Za-z_]|\{)/.test(text)

/** Returns the keys within a text, which redaction would hide. */
function spansIn(text: string): readonly Pick<FoundKey, "start" | "end" | "name">[] {
  // The default of a reference cannot be moved: no reference may stand within it.
  const references = [
    ...referenceSpans(text),
    ...[...text.matchAll(/\$\{[^}]*(?:\}|$)/g)].map(({ index, 0: { length } }) => [index, index + length] as const),
  ]
  const open = [...text.matchAll(PUBLIC)].map(({ index, 0: { length } }) => [index, index + length] as const)
  const inPaths = pathKeys(text).filter(([from, to]) => isOpen(text.slice(from, to)))
  const byRedaction = hiddenSpans(text, createRedactor([]).maskCredentials(text)).flatMap(([start, end]) => {
    if (inPaths.some(([from, to]) => start < to && end > from)) return []
    if (open.some(([from, to]) => start >= from && end <= to)) return []
    const value = text.slice(start, end)
    const name = NAMED.exec(text.slice(Math.max(0, start - MAX_NAMED), start))?.[1]
    const isDefault = references.some(([from, to]) => start < to && end > from)
    const isUser = USER.test(value) && text.slice(0, start).endsWith("://") && text[end] === "@"
    const isNamedAbout = name !== undefined && isAbout(name, value)
    return isOpen(value) && !isDefault && !HARMLESS.test(value) && !isUser && !isNamedAbout && !isPlainJson(value)
      ? [{ start, end, name }]
      : []
  })
  const known = [...byRedaction, ...inPaths.map(([start, end]) => ({ start, end, name: undefined }))]
  const inHex = [...text.matchAll(HEX_WITHIN)].flatMap(({ index, 0: whole, 1: name = "", 2: value = "" }) => {
    const [start, end] = [index + whole.length - value.length, index + whole.length]
    const isKnown = known.some((one) => one.start < end && one.end > start)
    return isHexKey(name, value) && !isKnown ? [{ start, end, name }] : []
  })
  return [...known, ...inHex].toSorted((one, other) => one.start - other.start)
}

/** Certificates, public keys, and names of resources. What else stands between such lines may be a private key. */
const PUBLIC =
  /-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}(?:CERTIFICATE(?: REQUEST| V\d)?|PUBLIC KEY(?: BLOCK)?|CRL|PARAMETERS|PKCS7|CMS|PGP SIGNATURE)-----(?:(?!-----)[\s\S]){0,16384}-----END [A-Z0-9 ]{1,40}-----|(?<![\w-])(?:ssh-[a-z\d]{2,16}|ecdsa-sha2-nistp\d{3}) AAAA[\w+/]{16,2048}={0,2}|(?<![\w-])arn:aws[\w-]{0,16}:[\w:/.*-]{1,512}/g

/** Whether a text is an object of JSON in base64 without any key in it. */
function isPlainJson(text: string): boolean {
  if (!/^eyJ[\w+/-]+={0,2}$/.test(text)) return false
  const decoded = Buffer.from(text, "base64").toString("utf8")
  return isObject(parseIfJson(decoded)) && spansIn(decoded).length === 0
}

/** Returns where addresses in a text have a key in their path: those of some services, and random letters in addresses of MCP. */
function pathKeys(text: string): readonly (readonly [start: number, end: number])[] {
  if (!text.includes("://")) return []
  const known = [...text.matchAll(KEY_IN_PATH)].map(
    ({ index, 0: { length: to }, 1: { length } = "" }) => [index + to - length, index + to] as const,
  )
  const random = [...text.matchAll(/https?:\/\/[^\s"'<>?#]{1,2048}/gi)].flatMap(({ index: at, 0: address }) =>
    MCP_ADDRESS.test(address)
      ? [...address.matchAll(/(?<=\/)[\w-]{24,512}(?=\/|$)/g)].flatMap(({ index, 0: part }) =>
          isRandom(part) || PREFIXED_HEX.test(part) ? [[at + index, at + index + part.length] as const] : [],
        )
      : [...address.matchAll(AFTER_VERSION)].flatMap(({ index, 0: part }) =>
          isRandom(part) || HEX.test(part) ? [[at + index, at + index + part.length] as const] : [],
        ),
  )
  return [...known, ...random.filter(([from]) => !known.some(([start, end]) => from >= start && from < end))]
}

/** The addresses of services that put a key into the path. */
const KEY_IN_PATH =
  /https?:\/\/(?:mcp\.zapier\.com\/api\/mcp\/[as]\/|(?:mcp|backend)\.composio\.dev\/(?:composio\/server|v\d\/mcp)\/|mcp\.pipedream\.net\/|[\w.-]{1,64}\.make\.com\/mcp\/(?:api\/v\d\/)?(?:u|server\/\d{1,16}\/t)\/|[\w-]{1,64}\.app\.n8n\.cloud\/mcp(?:-test)?\/|api\.telegram\.org\/bot|[\w-]{1,64}\.webhook\.office\.com\/webhookb2\/|[\w.-]{1,64}\.quiknode\.pro\/)([\w@:=%-]{16,512})/gi
/** A key such as `fc-…` in a path. */
const PREFIXED_HEX = /^[a-z]{1,8}[-_][0-9a-f]{32,64}$/i
/** All that follows the version of an API, as in `/v2/KEY`: an identifier follows the name of what it identifies. */
const AFTER_VERSION = /(?<=^https?:\/\/[^/]{1,256}\/v\d\/)[\w-]{24,128}(?=\/?$)/g
const MCP_ADDRESS = /^https?:\/\/mcp\.|\/(?:mcp|sse)(?:\/|$)/i
/** Whether a text has lower-case and capital letters and three digits behind a letter: a word with a date has none. */
const isRandom = (text: string): boolean => /[a-z]/.test(text) && /[A-Z]/.test(text) && hasDigits(text)
const hasDigits = (text: string): boolean => (text.match(/[A-Za-z]\d/g)?.length ?? 0) >= 3

/**
 * Returns where the password of `-u USER:PASSWORD` begins in an argument, also of `-uUSER:PASSWORD` and `--user=USER:PASSWORD`; undefined if it
 * is none for sure: a group, a port, a version.
 */
function passwordOf(flag: string, word: string): number | undefined {
  const [, joined, user, password] =
    /^(-u|--(?:proxy-)?user=)?([^\s:/@\\=]{1,128}):([^\s:/\\]{6,512})$/.exec(word) ?? []
  if (password === undefined || password === user || (joined === undefined && !/^(?:-u|--(?:proxy-)?user)$/.test(flag)))
    return undefined
  const isWord = !/[a-z]/i.test(password) || !/[\d!@#$%^&*+=~]/.test(password) || /^v?\d+(?:\.|$)/.test(password)
  return !isWord && isOpen(password) ? word.length - password.length : undefined
}

/**
 * Returns where the password begins in an argument that stands beside the name of a user: `-u NAME -p PASSWORD`, `-U NAME -P PASSWORD`,
 * `-uNAME -pPASSWORD`; undefined if it is none for sure: a port, a file, a text.
 */
function passwordBesideUser(words: readonly string[], index: number): number | undefined {
  const word = words[index] ?? ""
  const isApart = /^-[pP]$/.test(words[index - 1] ?? "")
  const start = isApart ? 0 : "-p".length
  if (!isApart && !JOINED_PASSWORD.test(word)) return undefined
  if (!hasUserBeside(words, isApart ? index - 1 : index, index)) return undefined
  const password = word.slice(start)
  const isOther = /^[-@]|\s|:\/\/|^[\d:.-]+$|[\\/]|\.[a-z]{1,5}$/i.test(password) || password.length < 4
  return isOther || HARMLESS.test(password) || !isOpen(password) ? undefined : start
}

/** Whether the words from `first` to `last` stand right after or before a flag with the name of a user. */
function hasUserBeside(words: readonly string[], first: number, last: number): boolean {
  const isUser = (flag = "", name = "") =>
    USER_FLAG.test(flag) ? /^[\w.+@$-]{1,128}$/.test(name) && !/^[-\d]/.test(name) : JOINED_USER.test(name)
  return (
    isUser(words[first - 2], words[first - 1]) ||
    isUser(words[last + 1], words[last + 2]) ||
    JOINED_USER.test(words[last + 1] ?? "")
  )
}

const JOINED_PASSWORD = /^-p(?=[^\s]*\d)(?=[^\s]*[a-z])[^\s:,./\\=-]{6,512}$/i
const USER_FLAG = /^(?:-[uU]|--?(?:user|username|user-name|login))$/
const JOINED_USER = /^(?:-u[A-Za-z][\w.@-]{1,64}|--(?:user|username|login)=[A-Za-z][\w.@-]{1,64})$/

/** Programs in whose arguments a group follows a user. */
const CONTAINER = /(?:^|[\\/])(?:docker|podman|nerdctl|su-exec|gosu|setpriv|chroot)(?:\.exe)?$/i

/** The most characters that NAMED matches: a search from the beginning of a long text for each key would take seconds. */
const MAX_NAMED = 100
/** The name before a value: `--api-key=`, `?api_key=`, `Authorization: Bearer `. */
const NAMED = /([A-Za-z][\w-]{0,63})["']?\s{0,4}[=:]\s{0,4}["']?(?:(?:bearer|basic|token)\s{1,4})?$/i
