/** How secrets are called: the one vocabulary for names of variables, headers and parameters, and for names in running text. */

/** Names whose values are secret even where they are written out. */
export const isSecretName = (name: string): boolean => NAME.test(name)

/** A word of the vocabulary in running text, as the source of an expression that ignores case. */
export const secretWord = (): string => WORDS.join("|")

// ---

/** Each excludes what is mostly harmless: authors, tokenizers and their counts, other words' ends. */
const WORDS: readonly string[] = [
  "(?:api|access|private|client|secret|signing|encryption|account)[ _-]?key",
  "key[_-]?id",
  "(?<!(?:max|min|total|prompt|completion|input|output)[ _-]?)token(?!i[sz])",
  "secret(?!ar)",
  "passw",
  "passphrase",
  "(?<!old)pwd",
  "credential",
  "auth(?!or(?!i[sz]))",
  "cookie",
  "session[ _-]?id",
  "signature",
  "dsn(?![a-z])",
  "connection[ _-]?string",
  "bearer",
  "(?<![a-z0-9])(?:pass|pat|otp|tok|jwt)(?![a-z0-9])",
]

/** What is harmless in most texts (`duplicate key: 7`, `private: true`), and names a secret where it names a variable. */
const IN_NAMES: readonly string[] = [
  "(?<!mon|tur|hoc|don|joc)key(?!board|word|map|note|frame|cloak|space|stroke)",
  "private$",
  "webhook",
  "(?<![a-z0-9])(?:pin|sig)(?![a-z0-9])",
]

/** Every shell has a variable PWD, and it is a path. */
const NAME = new RegExp(`^(?!pwd$)(?:.*(?:${[...WORDS, ...IN_NAMES].join("|")}))`, "is")
