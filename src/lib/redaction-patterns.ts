/**
 * The patterns of redaction: credentials and places in running text. They describe general forms: a secret name and its
 * value, a scheme and its token, a vendor's prefix and its letters, an address, a path.
 *
 *   1. The stronger the separator between a secret name and its value, the less the value must look like a secret: after `=` and
 *      `:`, any text but a placeholder is a value; after `: `, any text but a placeholder or a sentence; after white space, only
 *      a text that looks like a secret.
 *   2. A space belongs to a path if the path goes on after it: another separator, an extension, a capitalized word.
 *   3. Every quantifier is bounded, or matches characters that its neighbours cannot match, so that each text takes linear
 *      time.
 */
import { secretWord } from "./secret-names.ts"

export type Pattern = {
  readonly name: string
  readonly find: RegExp
  readonly put: string
  /**
   * A cheap check that accepts each text that `find` matches. It rejects most texts, so that a start need not compile the large
   * expressions, which takes 5 ms.
   */
  readonly needs?: RegExp
}

export const HIDDEN = "[REDACTED]"

// --- Words of messages, which follow the name of a secret without being its value.

const FUNCTION_WORD =
  "(?:an?|the|this|that|these|those|your|its?|their|our|my|is|are|was|were|be|been|has|have|had|do|does|did|can|cannot|could|must|may|might|should|will|would|of|to|in|into|on|off|at|by|for|from|with|without|within|as|and|or|nor|but|not|no|if|when|while|where|which|who|than|then|so|because|before|after|since|until|via|per|between|under|over|out|up|only|also|any|all|each|either|both|more|less|too|one|again|already|yet|now|there|here|we|you|he|she|they|i)"
const MESSAGE_WORD =
  "(?:absent|access|account|action|add|alias|api|app|ask|audience|auth|bad|basic|bearer|body|bytes?|cache|call|chain|change|check|claims?|class|client|code|command|config|content|cookies?|count|create|data|date|denied|deny|detail|digest|empty|endpoint|entry|env|error|exists?|expects?|expiry|fails?|false|fetch|field|file|filter|flag|flow|format|found|get|grant|group|hash|header|helper|hint|host|https?|id|info|input|instance|invalid|issue|item|job|json|jwt|keys?|keychain|keyring|kind|known|label|length|level|lifetime|limit|lines?|link|list|login|logout|long|lookup|make|match|mechanism|message|method|mismatch|mode|model|name|needs?|new|nonce|null|number|oauth2?|object|offline|ok|old|option|origin|pair|param|part|pass|password|path|pattern|payload|please|plugin|policy|pool|prefix|problem|profile|project|prompt|proof|proxy|public|query|quota|realm|reason|record|refresh|refuse|registry|reject|remove|renew|reply|request|resource|response|result|retry|role|root|rotate|rule|run|schema|scheme|scope|script|secrets?|see|sent?|server|service|session|sets?|short|show|sign|size|slot|source|spec|start|state|status|step|storage|store|stream|string|support|syntax|system|tenant|test|text|timeout|title|tokens?|tool|true|try|type|undefined|unknown|unset|url|used?|user|value|var|vault|verify|version|view|wallet|warning|web|write|wrong|yes)"
const WORD_ENDING =
  "(?:ed|ings?|[st]ions?|ments?|ness|ity|[ai]ble|[ae]nce|less|ful|ly|ous|ive|i[sz]e[sd]?|ship|e[rn]s?|ors?|ure|al|[aoe]ry|data|thm|board|back|name|base|[aei]nt|[ie]ct|i[cs]m?|age|where|[cd]ode)s?"
/** Ends a word: neither letters nor signs follow, and no punctuation inside a value. */
const END = "(?![\\w@$%^*+=/\\\\-]|[.:,;!?][\\w@$/+-])"
const COMMON_WORD = `(?:${FUNCTION_WORD}|${MESSAGE_WORD}|(?:does|is|was|are|were|has|did|could|would|ca|wo|do)n['’]t)`
const WORD = `(?:${COMMON_WORD}|[a-z]{2,20}${WORD_ENDING})`

/** Stands in place of a value: a placeholder, a reference, a constant. */
const PLACEHOLDER = `(?:\\[REDACTED|\\[object|\\[(?:PATH|URL|HOST|EMAIL)\\]|•{2}|\\*{3,}${END}|\\.{3}|…|<[a-z][\\w -]{0,40}>|\\{|\\$\\{|\\$[A-Z_][A-Z0-9_]{0,64}${END}|%[sdvo]${END}|\\[\\]|\\((?:empty|none|not |unset|hidden|redacted)|(?:null|undefined|none|nil|true|false|yes|no|empty|unset|missing|required|optional|invalid|expired|redacted|hidden|denied|revoked|unknown|string|number|boolean|object|same-origin|include|omit)${END})`
/** The signature of a function: its parameters and what follows them, its name before them or a keyword. */
const FUNCTION =
  "(?:\\([^()\\r\\n]{0,256}\\)\\s{0,2}(?:=>|->|:\\s|\\{)|(?<=signature[\"']?\\s{0,4}[:=]\\s{0,4})(?:(?:async|def|fn|func|function|public|static|void)\\s|[\\w.$]{1,64}(?:<[\\w, ]{1,64}>)?\\([^()\\r\\n]{0,256}\\)))"
/** The beginning of a sentence. */
const SENTENCE = `(?:(?:${WORD}|[a-z]{2,20}\\s{1,2}${FUNCTION_WORD})${END}(?<=\\w)[,]?(?=\\s{1,2}["'(]?[a-z])|\\d{1,9}\\s{1,2}[a-z])`
/** Names of variables and settings, versions, dates, algorithms, counts. */
const IDENTIFIER =
  "(?:(?-i:[A-Z][A-Z0-9]{0,30}(?:_[A-Z0-9]{1,30}){1,8}|[A-Z]{1,6}|[A-Za-z][a-z]{1,20}(?:[A-Z][a-z]{2,20}){0,4}(?:[A-Z]{2,4}|[A-Z][a-z]{2,20}))|[a-z]{2,20}(?:[_.-][a-z]{2,20}){1,6}|v?\\d{1,4}(?:\\.\\d{1,4}){1,3}|\\d{1,5}[a-z]{0,2}|\\d{4}-\\d\\d-\\d\\d|(?:sha|[rehp]s|md|aes|ed|oauth|tls|utf|base|ipv|http|argon|scrypt|x)-?\\d{1,3}|[\\w-]{1,64}\\.[a-z]{1,5}:\\d{1,6}(?::\\d{1,6})?)"

// --- Names, separators and values of secrets.

const SECRET_WORD = secretWord()
/** Excludes names that describe a secret and do not hold it: `token_type`, `secretName`, `auth_url`, `password_file`. */
const ABOUT =
  "(?<!types?|endpoints?|ur[il]s?|methods?|supported|names?|ttl|expir(?:y|es|ation)|[_-](?:at|in)|count|limit|length|size|enabled|disabled|required|status|state|mode|errors?|issuer|servers?|providers?|file|path|dir|version|alg|algorithm|level|format|schema|scheme|field)"
const NAME = `(?<![a-z0-9])[\\w-]{0,32}?(?:${SECRET_WORD})[\\w-]{0,32}(?![\\w-])${ABOUT}`
const SEPARATOR = "\\s{0,8}(?:=>|:=|->|==?|:)\\s{0,8}"
/** Punctuation belongs to a value unless the next member, white space or the end follows. */
const VALUE =
  "(?:[^\\s,;&\"'`)}\\]<>]|<(?![/\\w])|[,;&)}\\]](?=[^\\s,;&\"'`)}\\]=:<>]{1,64}(?![^\\s,;&\"'`)}\\]<>])(?![\"'`)}\\]])))+"
/** At least six characters with a digit or a sign among them, or eight letters. */
const RANDOM =
  "(?:(?=[^\\s,;\"'`<>()]{0,64}[\\d!@#$%^&*+=~])[^\\s,;\"'`<>()]{6}|[\\w-]{8})[^\\s,;\"'`<>()]{0,8192}(?<![.:!?])"

/** Separates the arguments of a command line, or those in a list of quoted texts. */
const GAP = `(?:\\s{1,4}|["'],\\s{0,2}["'])`
/** A command and its arguments up to a flag. */
const before = (command: string, flag: string) =>
  `(?:${command})(?:${GAP}(?!${flag})[^\\s|;&"',]{1,128}){0,12}?${GAP}${flag}`

const pattern = (name: string, source: string, put: string = HIDDEN, needs?: RegExp): Pattern => ({
  name,
  find: new RegExp(source, "gi"),
  put,
  ...(needs === undefined ? {} : { needs }),
})

const NEEDS_SECRET_WORD = new RegExp(SECRET_WORD, "i")

export const CREDENTIALS: readonly Pattern[] = [
  pattern(
    "private key",
    "-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?!-----END)[\\s\\S]){0,16384}(?:-----END [A-Z ]{0,60}-----)?",
  ),
  { name: "jwt", find: /(?<![\w-])eyJ[\w-]{5,8192}(?:\.[\w-]{0,8192}){1,4}/g, put: HIDDEN },
  // The URL of a sign-in has random parameters and folders that are not secret: a browser must be able to open it.
  {
    name: "token by its prefix",
    find: /(?<![\w-])(?<![?&](?:state|nonce|code_challenge|client_id|dpop_jkt)=)(?:[spr]k[-_](?:live[-_]|test[-_]|proj[-_]|ant[-_])?[\w-]{8,512}|gh[pousr]_\w{8,512}|github_pat_\w{8,512}|hf_[A-Za-z0-9]{30,40}(?!\w)|pat-[a-z]{2}\d-[0-9a-f-]{20,64}|nsec1[02-9ac-hj-np-z]{20,80}|gl[a-z]{2,6}-[\w.-]{12,512}|xox[a-z][-.][\w.-]{6,512}|xapp-[\w-]{6,512}|(?:AKIA|ASIA|ABIA|ACCA|LTAI|AKID)[0-9A-Za-z]{12,40}|AIza[\w-]{20,64}|GOCSPX-[\w-]{8,64}|1\/\/0[\w-]{20,512}|ya29\.[\w-]{8,512}|SG\.[\w-]{8,64}\.[\w-]{8,128}|hv[sbr]\.[\w-]{8,512}|pat[A-Za-z0-9]{14}\.[0-9a-f]{16,64}|AT[ABC][TB][A-Za-z0-9][\w=-]{16,512}|EAA[A-Za-z0-9]{20,512}|AGE-SECRET-KEY-1[0-9A-Z]{20,80}|FlyV1 [\w+/=,]{8,4096}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{20,128}|\d{8,10}:AA[\w-]{30,40}|[MNO][\w-]{22,28}\.[\w-]{6}\.[\w-]{27,40}|(?:AC|SK)[0-9a-f]{32}(?![0-9a-z])|sq0[a-z]{3}-[\w-]{16,128}|BSA[\w-]{20,64}|sl\.(?:[a-z]\.)?(?=[\w-]{0,64}\d)(?=[\w-]{0,64}[A-Z])[\w-]{60,2048}|oy2(?=[a-z]{0,42}\d)[a-z0-9]{43}(?!\w)|[012]\/(?:\d{10,20}\/)?(?:\d{10,20}:)[0-9a-f]{32}(?!\w)|[a-z\d]{1,10}sk-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w-])|[0-9a-f]{32}-us\d{1,2}(?![\w-])|v1\.0-[0-9a-f]{24}-[0-9a-f]{100,160}(?!\w)|svc_\w{4,64}_[\w-]{8,512}|[a-z]{2,12}_(?:pw|pat|tkn|tok|token|key|secret|oauth|live|test|prod)_(?=[\w-]{0,64}\d)[\w-]{20,512}|(?:[a-z]{2,12}\.){1,4}(?=[A-Za-z]{0,64}\d)(?=[a-z\d]{0,64}[A-Z])(?=[A-Z\d]{0,64}[a-z])[A-Za-z0-9]{32,512}(?![\w.-])|(?=[a-fA-F]{0,5}[g-zG-Z])[A-Za-z]{2,6}[0-9a-f]{32,64}(?![A-Za-z0-9])|(?<![/+=.])(?=[a-z/+\d]{0,39}[A-Z])(?=[A-Z/+\d]{0,39}[a-z])(?=[A-Za-z/+]{0,39}\d)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=.:_-]))/g,
    put: HIDDEN,
  },
  {
    // `npm_…`, `shpat_…`, `dop_v1_…`, `whsec_…`, `nvapi-…`, `key-…`: a short prefix and many letters, a digit among them.
    name: "prefix and random letters",
    // An identifier of AWS (`vpc-…`) has 17 hexadecimal digits.
    find: /(?<![A-Za-z0-9_./-])(?<![?&][\w.-]{1,64}=)(?!sha\d|v\d|[a-z]{1,12}-[0-9a-f]{17}(?![\w-])|(?:req(?:uest)?|resp|msg|message|call|toolu|evt|event|run|job|step|span|trace|chunk|build|commit|thread|batch|sess|session|id|web|node|image)[-_])[A-Za-z][A-Za-z0-9]{1,11}[-_](?:[A-Za-z0-9]{1,16}[-_]){0,3}(?=[A-Za-z]{0,64}\d)(?=\d{0,64}[A-Za-z])[A-Za-z0-9]{16,512}(?:[_-]{1,4}[A-Za-z0-9]{1,512}){0,16}(?:[_-]{1,4}(?!\w))?(?![.\w-])/g,
    put: HIDDEN,
  },
  {
    // Lower-case and capital letters, and three groups of digits. An integrity hash (`sha512-…`) is no secret.
    name: "random letters",
    find: /(?<![\w+=/-])(?!sha\d{1,3}-|(?:req|resp|msg|call|toolu|evt|run|trace|chatcmpl)[-_])(?<!sha\d{1,3}-[\w+/=]{0,90})(?=[\w+-]{0,64}[a-z])(?=[\w+-]{0,64}[A-Z])(?=(?:[^\W\d]{1,40}[+-]?\d{1,20}|[+-]){3,8})[\w+-]{24,8192}={0,2}/g,
    put: HIDDEN,
  },
  {
    name: "webhook",
    find: /(hooks\.[\w.-]{1,64}\/(?:services|triggers|workflows|hooks)\/|\/api\/webhooks\/)[\w/-]{8,512}/gi,
    put: `$1${HIDDEN}`,
  },
  {
    name: "cookies",
    find: /((?<![a-z0-9])(?:set-)?cookie["']?\s{0,8}[:=]\s{0,8}\[?["']?)[^\s=;,"'`]{1,256}=[^\s;"'`]{0,8192}(?:;\s{0,8}[^\s=;,"'`]{1,256}(?:=[^\s;"'`]{0,8192})?){0,64}/gi,
    put: `$1${HIDDEN}`,
  },
  {
    name: "authorization",
    find: new RegExp(
      `(authorization["']?${SEPARATOR}\\[?\\s?["']?(?!(?:bearer|basic|negotiate)\\s)[a-z][\\w-]{1,31}\\s{1,8})(?!${PLACEHOLDER}|${WORD}${END})[^\\s"',;]{1,8192}(?:"[^"\\r\\n]{0,4096}")?(?:,\\s{0,8}[\\w-]{1,32}=(?:"[^"\\r\\n]{0,4096}"|[^\\s"',]{0,4096})){0,32}`,
      "gi",
    ),
    needs: /authorization/i,
    put: `$1${HIDDEN}`,
  },
  {
    name: "scheme and token",
    // After `basic`, `digest` and `negotiate` comes base64 or a text with `=`: a plain word is not a token.
    // `Bearer realm="x"` is a challenge.
    find: new RegExp(
      `\\b(bearer(?!\\s{1,8}(?:${WORD}|[A-Z]{2,9})${END})|(?:basic|digest|negotiate)(?!\\s{1,8}(?-i:[A-Z]?[a-z]{1,40})(?:[.:,]?\\s|[.:]?$)))(\\s{1,8}|%20)(?!${PLACEHOLDER}|(?:realm|scope|error\\w{0,16}|resource_metadata)=)[\\w.~+/=:-]{4,8192}`,
      "gi",
    ),
    needs: /bearer|basic|digest|negotiate/i,
    put: `$1$2${HIDDEN}`,
  },
  {
    name: "user and password",
    // A password may hold slashes and at-signs. A number after the colon is a port.
    find: /\b([a-z][a-z0-9+.-]{0,30}:\/\/)(?:[^\s/@"'<>?#]{1,512}@|[^\s/@:"'<>?#]{0,256}:(?!\d{1,5}(?:[/?#\s]|$))[^\s"'<>]{1,512}@(?=[\w[]))/gi,
    put: `$1${HIDDEN}@`,
  },
  {
    name: "password at host",
    // After the at-sign of a package or an image comes a version, a tag or a digest.
    find: /(?<![\w.+/-])(?!(?:npm|jsr|pkg|docker|oci|node|deno|bun|workspace|file|git|mailto|sip|acct):)[\w.+-]{0,64}:[^\s:@/"'<>]{1,256}@(?=[a-z[]|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d)(?!sha\d|latest\b|next\b)/gi,
    put: `${HIDDEN}@`,
  },
  {
    name: "password of a user",
    find: /((?:^|\s)(?:-u|--user|--proxy-user)[\s=]["']?)(?!\d{1,6}:\d)[^\s:"']{1,128}:[^\s"']{1,512}/gi,
    put: `$1${HIDDEN}`,
  },
  {
    name: "user/password@host",
    // A digest after the at-sign is that of an image.
    find: /(?<![\w@./-])[\w.-]{1,64}\/[^\s@/"'<>]{1,256}@(?!sha\d{1,3}:)(?=(?:\/\/)?[\w.-]{1,253}:\d)/gi,
    put: `${HIDDEN}@`,
  },
  pattern(
    "key and quoted value",
    `(${NAME}\\\\{0,8}["']?${SEPARATOR}\\[?\\s?[bru]?)(\\\\{0,8}["'\`])(?!${PLACEHOLDER}|\\2)(?:(?!(?<!\\\\)\\2)[^\\r\\n])+(?:\\2|(?=[\\r\\n]|$))`,
    `$1$2${HIDDEN}$2`,
    NEEDS_SECRET_WORD,
  ),
  pattern(
    "key and value",
    `(${NAME}["']?(?:\\s{0,8}(?:=>|:=|->|==|=(?![=>]))\\s{0,8}|\\s{0,8}:(?!=)(?:\\s{1,8}(?!${SENTENCE}))?)\\[?)(?!\\s|\\[?\\s?[bru]?\\\\{0,8}["'\`]|${PLACEHOLDER}|${FUNCTION}|//|[\\w-]{2,32}(?:\\s{1,8}|%20)\\[REDACTED|(?:bearer|basic|token)\\s{1,8}\\$\\{|(?<=[\\r\\n]\\s{0,8})[\\w-]{1,64}:(?:\\s|$))${VALUE}`,
    `$1${HIDDEN}`,
    NEEDS_SECRET_WORD,
  ),
  // ODBC puts a password with a semicolon into braces.
  pattern("braced password", `((?:^|[;"'\\s])pwd\\s?=\\s?\\{)[^{}\\r\\n]{1,512}(?=\\}(?:[;"'\\s]|$))`, `$1${HIDDEN}`),
  pattern(
    "key and random value",
    `((?<![a-z0-9])[\\w-]{0,32}?(?:key|sid|assertion|code|pin)["']?\\s{0,8}[:=]\\s{0,8}["']?)(?:(?=[a-z+/_-]{0,64}\\d)(?=[\\d+/_-]{0,64}[a-z])[\\w+/-]{16,8192}={0,2}(?![\\w.:])|(?<=pin["']?[:=] ?)\\d{4,8}\\b)`,
    `$1${HIDDEN}`,
  ),
  pattern(
    "names and values apart",
    `(["']${NAME}["']\\s{0,8}(?:,\\s{0,8}|(?=value))(?:["']?value["']?\\s{0,8}[:=]\\s{0,8})?["'])(?!(?:${PLACEHOLDER}|${WORD}|${IDENTIFIER})${END})${RANDOM}`,
    `$1${HIDDEN}`,
    NEEDS_SECRET_WORD,
  ),
  pattern(
    "element and value",
    `(<[\\w:-]{0,32}?(?:${SECRET_WORD})[\\w-]{0,32}>)(?!${PLACEHOLDER})[^<\\r\\n]{1,4096}(?=<)`,
    `$1${HIDDEN}`,
    NEEDS_SECRET_WORD,
  ),
  pattern(
    "name, space and value",
    `((?<!(?:unexpected|illegal|reserved)\\s{1,4})(?<![a-z0-9-])[\\w-]{0,32}?(?:${SECRET_WORD})(?:ord|d|s)?\\s{1,4}(?:(?:is|was|value|provided|given|used|sent|received|of|for \\S{1,64}|starting with|ending (?:in|with))\\b:?\\s{1,4}){0,2}["'\`(]?)(?!(?:${PLACEHOLDER}|(?:${WORD}|${IDENTIFIER})${END}))(?!--?[a-z]|[a-z][\\w-]{0,64}[=:][\\s"'])${RANDOM}`,
    `$1${HIDDEN}`,
    NEEDS_SECRET_WORD,
  ),
  pattern(
    "name of a key, space and value",
    `((?<![\\w-])(?!(?:cache|primary|foreign|public|sort|partition|routing|idempotency|dedup\\w{0,12})[-_])(?:[a-z0-9]{1,32}[-_]){1,6}key\\s{1,4}["']?)(?=[a-z]{0,64}\\d)(?=\\d{0,64}[a-z])[\\w+/]{20,8192}={0,2}(?![\\w.:-])`,
    `$1${HIDDEN}`,
  ),
  pattern(
    "one-time code",
    `((?<![a-z0-9])(?:(?:t?otp|[2m]fa|one[ -]time|verification|confirmation|security|sms|recovery|backup)(?:[ _-](?:code|pin|password|passcode|token|number))?|(?:log[ -]?in|sign[ -]?in|auth(?:entication)?|access)[ _-](?:code|pin))\\s{0,4}(?:(?:is|was|[:=]|=>)\\s{0,4})?["'\`(]?)(?:\\d{4,10}|\\d{3}[ -]\\d{3})(?![\\w.-])`,
    `$1${HIDDEN}`,
  ),
  // Several words, to the end of the clause.
  pattern(
    "phrase",
    `((?<![a-z0-9])(?:pass[ -]?phrase|(?:seed|recovery|secret|backup|mnemonic)[ -]phrase)(?:\\s(?:for|of)\\s(?:\\S{1,128}\\s){1,3}?)?\\s{0,4}(?:is|was|[:=])\\s{1,4}["'\`]?)(?!${PLACEHOLDER}|${COMMON_WORD}${END}|${WORD}(?:\\s{0,4}(?:$|[.,;:!?)\\r\\n])|\\s{1,4}${FUNCTION_WORD}${END}))[^\\r\\n.,;"'\`]{4,1024}`,
    `$1${HIDDEN}`,
    /phrase/i,
  ),
  pattern(
    "quoted phrase",
    `((?<![a-z0-9])(?:pass[ -]?(?:phrase|word|code)|passwd|pwd?)\\s{1,4}(?:(?:is|was)\\s{1,4})?(["'\`]))(?!${PLACEHOLDER}|\\2)[^\\r\\n"'\`]{4,1024}(?=\\2)`,
    `$1${HIDDEN}`,
    /pass|pw/i,
  ),
  // What a workflow hides in its log from here on.
  pattern("mask of a workflow", "(::add-mask::)[^\\r\\n]{1,4096}", `$1${HIDDEN}`, /add-mask/i),
  pattern(
    "recovery words",
    `(\\b(?:mnemonic|seed|phrase|words)\\b["']?(?:\\s{0,4}(?:is|was|[:=]))?\\s{0,4}["'\`]?)(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}\\b`,
    `$1${HIDDEN}`,
  ),
  pattern(
    "password of a person",
    `((?<![a-z0-9])(?:password|passwd|pwd|passcode)s?\\s{1,4}(?:for|of)\\s{1,4}(?:(?:the\\s)?(?:user|account|role|login|host|realm)\\s{1,4})?(?:[^\\s"'\`:]{1,128}|(["'\`])[^\\r\\n"'\`]{1,256}\\2)(?:\\s{1,4}(?:is|was)|\\s{0,2}[:=])\\s{1,4}["'\`]?)(?!${PLACEHOLDER}|${SENTENCE}|${WORD}${END})[^\\s"'\`,;]{1,512}`,
    `$1${HIDDEN}`,
    /passw|pwd|passcode/i,
  ),
  pattern(
    "passwords in a list",
    `((?<![a-z0-9])(?:pass(?:word|code|phrase)|token|secret|api[ _-]key)s\\s{1,4}(?:(?:are|were|tried|used|and|or)\\s{1,4}){0,2}["'\`]?)(?!(?:${PLACEHOLDER}|(?:${WORD}|${IDENTIFIER})${END}))(?=[^\\s,;]{0,64}\\d)(?=[^\\s,;]{0,64}[a-z])[^\\s,;"'\`<>()]{6,512}(?:(?:,\\s|\\s(?:and|or)\\s|,?\\s(?:and|or)\\s)["'\`]?(?=[^\\s,;]{0,64}\\d)[^\\s,;"'\`<>()]{6,512}["'\`]?){0,16}`,
    `$1${HIDDEN}`,
    /(?:pass(?:word|code|phrase)|token|secret|key)s/i,
  ),
  {
    // `-p` is a password after a user, and in commands that have no other `-p`; elsewhere it is a port or a folder.
    name: "password flag of a command",
    find: new RegExp(
      `((?:^|[\\s"'\`])(?:(?<!\\b(?:mysql|mariadb)[^|;&\\r\\n]{0,200})(?:-u|-U|--user(?:name)?)(?:${GAP}|=)?[^\\s"',-][^\\s"',]{0,127}(?:${GAP}-[\\w=./:-]{1,64}){0,4}${GAP}-p(?!${GAP}(?:[\\d.]{1,15}:)?\\d{1,5}(?::\\d{1,5})?(?:/\\w{3})?(?![\\w.:]))|${before(`sshpass|mongo\\w{0,8}|(?:docker|podman|nerdctl|buildah|skopeo|oc|registry)${GAP}login`, "-p")}|${before("redis-cli", "-a")}|${before("plink|pscp|psftp", "-pw")}|${before("sqlcmd|bcp|unzip|zip", "-P")}|${before("ldap\\w{3,8}", "-w")})(?:${GAP}["']?|["']))(?!-|${PLACEHOLDER})[^\\s"'\`]{1,512}`,
      "g",
    ),
    needs: /-[pawP]/,
    put: `$1${HIDDEN}`,
  },
  {
    name: "password joined to its flag",
    find: new RegExp(
      `((?:^|[\\s"'\`])${before("mysql\\w{0,8}|mariadb[\\w-]{0,8}|sshpass|7z[ar]?", "-p")}["']?)(?![\\s"']|\\[REDACTED|\\$|<)[^\\s"'\`]{1,512}`,
      "g",
    ),
    needs: /-p/,
    put: `$1${HIDDEN}`,
  },
  pattern(
    "flag and value",
    `(--[\\w-]{0,32}?(?:${SECRET_WORD}|key)[\\w-]{0,32}(?:\\s{1,8}|=)["']?)(?!-|${PLACEHOLDER}|${WORD}${END})[^\\s"',]+`,
    `$1${HIDDEN}`,
    /--/,
  ),
  pattern(
    "secret parameter",
    `([?&](?:[\\w.-]{0,32}?(?:key|sig|assertion|ticket)|code|(?:pass|pin|auth))=)(?!\\[REDACTED)[^\\s&"'#]{1,8192}`,
    `$1${HIDDEN}`,
  ),
]

// --- Places.

/** Excludes words that continue a sentence after a path. */
const AFTER_PATH = `(?!(?:${FUNCTION_WORD}|failed|exists?|denied|missing|error|line)(?![\\w.-]))`
const LETTER = "[\\p{L}\\p{N}_.@~%$#+-]"
const ROOT_FOLDER =
  "app|bin|boot|certs?|code|conf|config|data|dev|etc|home|keys|lib(?:32|64)?|library|mnt|media|nix|opt|private|proc|projects?|repos?|root|run|sbin|secrets?|snap|src|srv|sys|system|tmp|users|usr|var|volumes?|work(?:space)?"
/** A space inside a path; see rule 2 at the top. `sep` separates folders. */
const spaceInside = (sep: string) =>
  ` (?=${AFTER_PATH}[\\p{L}\\p{N}(&_-][^\\s"'<>|:*?\`,;]{0,63}(?: [\\p{L}\\p{N}(&_-][^\\s"'<>|:*?\`,;/\\\\]{0,63}){0,3}${sep}(?!\\s)|${AFTER_PATH}[\\p{L}\\p{N}(_-][\\p{L}\\p{N}()_-]{0,63}(?: [\\p{L}\\p{N}()_-]{1,63}){0,2}\\.[a-z]{1,4}\\d?(?![\\w/])|(?-i:(?<=[/\\\\]\\p{Lu}\\p{Ll}[^\\s/\\\\.]{0,63} )\\p{Lu}\\p{Ll}))`
/** Runs of characters with joints between them: one group for each run is cheap, one for each character is not. */
const joined = (character: string, joint: string) => `${character}{0,4096}(?:${joint}${character}{0,4096}){0,256}`
const TLD =
  "(?:com|org|net|edu|gov|io|dev|app|ai|cloud|co|tech|xyz|online|site|info|biz|example|test|localhost|de|uk|fr|eu|nl|us|ca|au|jp|cn|br|ch|corp|internal|intranet|lan|local|home|private)"
const LABELS = "(?:[a-z0-9](?:[a-z0-9_-]{0,62})\\.){1,8}"
const AUTHORITY_END = "[^\\s\"'<>`,;()\\]}|]{0,4096}(?<![.:!?])"
/** The name of a host, with or without a domain, in a place where the words around it show that it is a host. */
const HOST_NAME = "(?=[\\d.-]{0,64}[a-z])[a-z0-9](?:[a-z0-9_.-]{0,251}[a-z0-9])?"
const NO_HOST = `(?:(?:${FUNCTION_WORD}|errors?|fail(?:ed|s|ure)|keys?|ports?|networks?|hosts?|hostnames?|names?|servers?|address(?:es)?|dns|getaddrinfo|lookup|host is|module|package|file|command|symbol|import|types?|query|promise|path|dependency|dependencies)(?![\\w.-]))`
/** Extensions of file names, which host names do not have. */
const EXTENSION =
  "(?:[cm]?[jt]sx?|json[c5l]?|py[cio]?|go|rs|rb|java|kt|scala|c|cc|cpp|cs|h|hpp|php|pl|lua|sh|ps1|bat|cmd|ya?ml|toml|ini|cfg|conf|config|env|lock|md|mdx|txt|log|csv|xml|html?|css|scss|vue|svelte|sql|swift|dart|exs?|erl|hs|clj|zig|nim|r|jl|m|mm|wasm|map|gz|zip|tar|whl|exe|dll|so|proto|graphql|prisma|tf)"
/** The hosts in names of packages, modules and images: such a name is not an address. */
const PACKAGES =
  "(?:(?:[\\w-]{1,63}\\.){0,4}(?:github|gitlab|bitbucket|golang|k8s|docker|ghcr|quay|gcr|pkg|gopkg|azurecr|jsr|uber)\\.(?:com|org|io|dev|in)|mcr\\.microsoft\\.com|public\\.ecr\\.aws)"

const place = (name: string, source: string, put: string): Pattern => ({ name, find: new RegExp(source, "giu"), put })

export const PLACES: readonly Pattern[] = [
  // A quoted path may have spaces.
  place(
    "quoted path",
    `(["'\`])(?:file:[/\\\\]{1,3}|[a-z]:[\\\\/]|(?:~|\\.{1,2}|\\$\\{?\\w{1,64}\\}?|%\\w{1,64}%)?/(?=/?${LETTER})|(?:\\.{1,2}|~|%\\w{1,64}%)?\\\\(?=\\\\|\\w))(?:(?!\\1)[^\\r\\n]){1,4096}\\1`,
    "$1[PATH]$1",
  ),
  place(
    "url",
    `\\b(?:file:${joined("[^\\s\"'<>`]", spaceInside("/"))}|[a-z][a-z0-9+.-]{1,30}://[^\\s"'<>\`]{1,4096})(?:(?<![.,:;!?)\\]”’])|(?<=\\[REDACTED\\]))`,
    "[URL]",
  ),
  place(
    "address in a repository's form",
    "(?<![\\p{L}\\p{N}_.+-])[\\w.+-]{1,64}@(?!sha\\d)[\\w.-]{1,253}:(?=[^\\s:]{0,64}[/~a-z])[^\\s\"'<>`,;()]{1,4096}",
    "[URL]",
  ),
  // No domain ends in a number: `name@1.0.5` is a package.
  place("e-mail", "(?<![\\w.+-])[\\w.+-]{1,64}@[\\w-]{1,63}(?:\\.[\\w-]{1,63}){0,7}\\.[a-z][\\w-]{1,62}", "[EMAIL]"),
  place(
    "unc path",
    `(?<![\\\\\\w])\\\\{2,8}[^\\s\\\\/"'<>|]{1,255}[\\\\/]${joined("[^\\s\"'<>|]", spaceInside("[\\\\/]"))}`,
    "[PATH]",
  ),
  place(
    "windows path",
    `(?<![a-z0-9])(?:[a-z]:[\\\\/]|(?:%\\w{1,64}%|~|\\.{1,2}|\\$env:\\w{1,64})\\\\)${joined("[^\\s\"'<>|]", spaceInside("[\\\\/]"))}(?<![.:,;)])`,
    "[PATH]",
  ),
  place(
    "ipv6 with an ipv4",
    "(?<![\\w:.])(?:[0-9a-f]{1,4}:{1,2}|::){1,7}(?:\\d{1,3}\\.){3}\\d{1,3}(?![\\w:])",
    "[IPv6]",
  ),
  place(
    "address without a scheme",
    `(?<![\\p{L}\\p{N}_@./\\\\-])(?:(?:www\\.${LABELS}[a-z]{2,24}(?::\\d{1,5})?(?:[/?#]${AUTHORITY_END})?|(?:localhost|\\[[0-9a-f:.%]{2,64}\\]|(?:\\d{1,3}\\.){3}\\d{1,3})(?::\\d{1,5})?[/?]${AUTHORITY_END}|${LABELS}[a-z][a-z0-9-]{1,62}:\\d{1,5}[/?]${AUTHORITY_END})|(?!(?:com|org|net|io|ai|dev|app|co|me)\\.|${PACKAGES}/)${LABELS}${TLD}[/?]${AUTHORITY_END}|[a-z][\\w-]{1,62}:\\d{4,5}/(?=\\w)${AUTHORITY_END})`,
    "[URL]",
  ),
  place(
    "host and port",
    `(?<![\\p{L}\\p{N}_@./\\\\-])(?:localhost|(?!(?:[\\w-]{1,63}\\.){1,8}${EXTENSION}:)(?=[\\w.-]{0,253}[a-z])${LABELS}[a-z](?:[a-z0-9-]{0,62})|\\[(?=[0-9a-f.]{0,9}:)[0-9a-f:.%\\w]{2,64}\\]):\\d{2,5}(?![\\d.:]*[\\d\\w])`,
    "[HOST]",
  ),
  place(
    "internal host",
    `(?<![\\p{L}\\p{N}_@./\\\\-])(?:[a-z0-9](?:[a-z0-9-]{0,62})\\.){1,8}(?:internal|corp|intranet|lan|cluster\\.local)(?![\\w.-]*\\w)`,
    "[HOST]",
  ),
  place(
    "host of a failed connection",
    `(\\b(?:ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|(?:connect(?:ion|ing|ed)?|connection to server) (?:at|to)|dial tcp:? ?(?:lookup)?)\\s{1,2}(?:host\\s{1,2}|server\\s{1,2})?["']?)(?!\\[|(?:\\d{1,3}\\.){3})(?:${LABELS}[a-z][a-z0-9-]{1,62}|${HOST_NAME}(?=:\\d|["']?,?\\s{1,2}port\\s{1,2}\\d))(?::\\d{1,5})?(?![\\w/])`,
    "$1[HOST]",
  ),
  place(
    "host that was looked up",
    `(\\b(?:ENOTFOUND|EAI_(?:AGAIN|NONAME|NODATA|FAIL)|ENODATA|(?:could not|couldn['’]t|cannot|can['’]t|failed to|unable to) (?:resolve|translate|look up)(?: the)?(?: address of(?: host)?| (?:remote )?host(?:[ -]?name| address)?| proxy| server(?: name)?| domain(?: name)?):?|unknown (?:\\w{1,16} )?(?:server )?host(?:exception)?:?|(?:running |server )?on host|UnknownHostException:|getaddrinfo(?: failed)? for(?: host)?|server (?:at|on)(?=\\s{1,2}["'])|no address (?:associated with|for)(?: host(?:name)?)?|no route to host|(?:name or service not known|no such host|nodename nor servname provided, or not known):)\\s{1,2}["'(]?)(?!\\[|(?:\\d{1,3}\\.){3}|${NO_HOST})${HOST_NAME}(?::\\d{1,5}|\\s${HOST_NAME}:\\d{1,5})?(?![\\w/(]|\\.\\w)`,
    "$1[HOST]",
  ),
  place(
    "host without an address",
    `(?<![\\p{L}\\p{N}_@./\\\\-])(?!${NO_HOST})${HOST_NAME}(?=["']?(?: on \\S{3,64})?: (?:no such host|name or service not known|temporary failure in name resolution|nodename nor servname|unknown host|no address associated))`,
    "[HOST]",
  ),
  // The messages of network-error.ts.
  place(
    "host that cannot be reached",
    "(?!\\[|(?:\\d{1,3}\\.){3})(?:(?<=\\b(?:cannot reach|nothing listens at) )[\\w.-]{1,253}(?::\\d{1,5}(?!\\d)|(?= \\())|(?<![\\w.:\\]-])[\\w.-]{1,253}(?::\\d{1,5})?(?= closed the connection without an answer))",
    "[HOST]",
  ),
  place(
    "unix path",
    // `/help` and `try /start` are commands of a chat.
    `(?!/(?:help|(?<=\\b(?:try|type|use|using|send|enter|say|usage:|commands?:?)\\s{1,2}(?:/[a-z]{2,20},?\\s(?:(?:or|and)\\s)?){0,8}/)(?!(?:${ROOT_FOLDER})(?![\\w-]))[a-z][a-z_-]{1,20})(?![\\w/.-]))(?<![\\p{L}\\p{N}_\\])}+]|<(?!~?\\.{0,2}/[^\\s/<>]{1,64}/))(?:~[a-z_]?[\\w-]{0,32}|\\.{1,2}|\\$\\{?[a-z_]\\w{0,64}\\}?)?/(?!-)(?=${LETTER}{0,8}[\\p{L}\\p{N}])${LETTER}${joined("[^\\s\"'<>|`,;()\\\\]", `(?:\\\\.|[,;()\\\\](?=[\\p{L}\\p{N}_./])|${spaceInside("/")})`)}(?<![:.”’]|(?<!\\[[\\w.-]{1,64})\\])`,
    "[PATH]",
  ),
  place(
    "relative path",
    `(?<![\\p{L}\\p{N}_@./\\\\:\\]-])\\.?[\\w-][\\w.-]{0,63}/(?:[.@]?[\\w-][\\w.-]{0,63}/){1,31}[\\w.-]{1,128}\\.${EXTENSION}(?![\\w/])`,
    "[PATH]",
  ),
  // Four numbers after `v`, `version`, `==` and the like are a version.
  place(
    "ipv4",
    "(?<![\\d.\\w-]|version[ :]{1,2}|[=~<>^]=\\s?|[~^]|release[ :])((?:25[0-5]|2[0-4]\\d|1?\\d?\\d)\\.(?:25[0-5]|2[0-4]\\d|1?\\d?\\d))(?:\\.(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)){2}(?![\\d.]*\\d)(?![\\w-])",
    "$1.x.x",
  ),
  place("ipv6", "(?<![\\w:])([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\\w:])", "[IPv6]"),
  // Not `::` alone, which means every address, and not `std::a`, a name in C++.
  place(
    "short ipv6",
    "(?<![\\w:])(?=[0-9a-f:]{0,40}\\d)(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?(?![\\w:])",
    "[IPv6]",
  ),
]
