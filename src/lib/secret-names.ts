/** The vocabulary of secret names: of variables, headers and parameters, and of names in running text. */

/** Whether the value of a variable, header or parameter of this name is secret. */
export const isSecretName = (name: string): boolean => NAME.test(name)

/** Returns the source of a case-insensitive RegExp that matches a word of the vocabulary in running text. */
export const secretWord = (): string => WORDS.join("|")

// ---

/** The lookarounds exclude harmless words: author, tokenizer, max_tokens, secretary, compass. */
const WORDS: readonly string[] = [
  "(?:api|access|private|client|secret|signing|encryption|account|subscription|licen[cs]e|master|recovery)[ _-]?key",
  "key[_-]?id",
  "(?<!(?:max|min|total|prompt|completion|input|output)[ _-]?)token(?!i[sz])",
  "secret(?!ar)",
  "passw",
  "passphrase",
  "passcode",
  "(?<!old)pwd",
  "credential",
  "auth(?!or(?!i[sz]))",
  "cookie",
  "sess(?:ion)?[ _-]?id",
  "client[_-]assertion",
  "signature",
  "dsn(?![a-z])",
  "connection[ _-]?string",
  "bearer",
  "(?<![a-z0-9])(?:pass|pat|otp|tok|jwt)(?![a-z0-9])",
  "(?<![a-z0-9])pw(?=[\"']?\\s?[:=]|$)",
]

/** Words that are harmless in most texts (`duplicate key: 7`, `private: true`) but name a secret as part of a variable. */
const IN_NAMES: readonly string[] = [
  "(?<!mon|tur|hoc|don|joc|(?<!s)hot)key(?!board|word|map|note|frame|cloak|space|stroke|bind|pad)",
  "private$",
  "mnemonic",
  "(?:seed|recovery|backup)[_-]?(?:phrase|words)",
  "webhook",
  "(?<![a-z0-9])(?:pin|sig)(?![a-z0-9])",
]

/** Matches all names of the vocabulary but PWD, which is a path in every shell. */
const NAME = new RegExp(`^(?!pwd$)(?:.*(?:${[...WORDS, ...IN_NAMES].join("|")}))`, "is")
