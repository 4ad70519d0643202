import { expect, test } from "bun:test"
import { createRedactor } from "../../src/lib/redact.ts"
import { isSecretName } from "../../src/lib/secret-names.ts"

/** Secret as a name, and in a text. */
const SECRET = [
  ..."API_KEY apikey X-Api-Key AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID ACCOUNT_KEY client_secret SIGNING_KEY ENCRYPTION_KEYS".split(
    " ",
  ),
  ..."GITHUB_TOKEN access_token TOKENS PASSWORD passwd KEY_PASSPHRASE DB_PWD PASS REDIS_PASS GOOGLE_CREDENTIALS".split(
    " ",
  ),
  ..."AUTH_TOKEN OAUTH Authorization AUTHORISATION Cookie SESSION_ID sessionid x-hub-signature SENTRY_DSN".split(" "),
  ..."CONNECTION_STRING connectionString BEARER GITHUB_PAT MY-OTP tok jwt".split(" "),
]
/** Secret as a name alone: a text may say `key: 7` of anything. */
const SECRET_NAMES =
  "KEY OPENAI_KEY sshKey snapshotKey SNAPSHOTKEY screenshotKey WALLET_PRIVATE SLACK_WEBHOOK_URL CARD_PIN sig".split(" ")
const HARMLESS = [
  ..."PATH PWD OLDPWD HOME COMPASS BYPASS_CACHE PASSTHROUGH AUTHOR GIT_AUTHOR_NAME KEYBOARD MONKEY HOTKEY KEYWORDS".split(
    " ",
  ),
  ..."KEYCLOAK_URL SPINNER PATTERN OPTION SIGNAL MAX_TOKENS prompt_tokens TOKENIZER SECRETARY TOKYO PRIVATE_REPOS".split(
    " ",
  ),
]

test("these names are secret, and these are not", () => {
  expect([...SECRET, ...SECRET_NAMES].filter((name) => !isSecretName(name))).toEqual([])
  expect(HARMLESS.filter(isSecretName)).toEqual([])
})

test("secret names are recognized in texts too, and harmless names are not", () => {
  const { maskCredentials } = createRedactor([])
  const said = (name: string) => `${name}: hunter2-hunter2`
  expect(SECRET.filter((name) => maskCredentials(said(name)).includes("hunter2"))).toEqual([])
  const told = [...SECRET_NAMES, ...HARMLESS].filter((name) => name !== "PWD")
  expect(told.filter((name) => maskCredentials(said(name)) !== said(name))).toEqual([])
})
