/** The difference of two versions of mcp.json, as people see it. */
import { expect, test } from "bun:test"
import { formatChange } from "../../src/config/document-diff.ts"
import { secretsOf } from "../../src/config/written-values.ts"

/** Returns how each value of `env` is shown if it is added. */
function shown(env: Readonly<Record<string, string>>): readonly string[] {
  const text = JSON.stringify(env, null, 2)
  return formatChange("", text, secretsOf([{ server: { env } }]))
    .split("\n")
    .flatMap((line) => /": "(.*)",?$/.exec(line)?.[1] ?? [])
}

test("references are shown, because they only say where a secret is [cli:config:restore]", () => {
  const references = {
    API_TOKEN: "${env:X}",
    B_KEY: "${keychain:my key}",
    C_KEY: "${cmd:op read op://vault/item/token}",
    D_PASSWORD: "${file:/run/secrets/x}",
    E_TOKEN: "$E",
    F_SECRET: "${A}${B}",
    AUTHORIZATION: "Bearer ${env:R}",
    URL: "https://h.example/mcp?api_key=${env:Q}",
    DATABASE: "postgres://${USER}:${PW}@h.example/x",
  }
  expect(shown(references)).toEqual(Object.values(references))
})

test("text around references, defaults and secrets in commands are hidden [cli:config:restore]", () => {
  const env = {
    A_TOKEN: "canary-1-literal",
    B_TOKEN: "canary-2-${B}",
    C_KEY: "${C:-canary-3-default}",
    D_KEY: "${cmd:curl --token canary-4-word https://h.example}",
    AUTHORIZATION: "Bearer canary-5-literal",
    URL: "postgres://me:canary-6-${PW}@h.example/x",
    "X-Authorization": "Bearer ${cmd:curl --token canary-8-word h.example}",
    G_KEY: "${G:-${H}canary-7-inner}",
  }
  expect(shown(env)).toEqual([
    "[REDACTED]",
    "[REDACTED]${B}",
    "${C:-[REDACTED]}",
    "${cmd:curl --token [REDACTED] https://h.example}",
    "[REDACTED]",
    "postgres://[REDACTED]${PW}@h.example/x",
    "Bearer ${cmd:curl --token [REDACTED] h.example}",
    "${G:-${H}[REDACTED]}",
  ])
})
