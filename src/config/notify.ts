/** Whom svc tells about problems: `notify` in mcp.json. */
import type { Issue } from "../lib/errors.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { isSecretName } from "../lib/secret-names.ts"
import { headerCredentials } from "./credentials.ts"
import { type Document, issueAt } from "./document.ts"
import { type EnvironmentSources, lookUpVariable, schemeOf } from "./environment.ts"
import { keysIn, keyText } from "./found-keys.ts"
import { schemas } from "./lazy-schema.ts"
import type { AlertKind } from "./schema.ts"
import { substitute } from "./substitution.ts"

/** A target of notifications, with references resolved. */
export type NotifyTarget = {
  /** What messages call it, without secrets: "notify[0] (hooks.example.com)". */
  readonly label: string
  readonly on: readonly AlertKind[]
  /** Milliseconds. */
  readonly downAfter: number
  /** The values of its references, and what looks like a key in the words of its command. */
  readonly secrets: readonly string[]
  readonly to:
    | {
        readonly kind: "webhook"
        readonly url: string
        readonly headers: Readonly<Record<string, string>>
        /** Undefined if requests are not signed. */
        readonly secret: string | undefined
      }
    | { readonly kind: "command"; readonly words: readonly string[] }
}

/**
 * Reads the targets of a document. One that cannot be used becomes an issue, which shows no value. What the schema refuses is an
 * issue of the document's sections already, and is left out here.
 */
export function readNotifyTargets(
  document: Document,
  sources: EnvironmentSources,
): { readonly targets: readonly NotifyTarget[]; readonly issues: readonly Issue[] } {
  const { notify } = document.value
  if (notify === undefined) return { targets: [], issues: [] }
  const { notifySchema, ALERT_KINDS } = schemas()
  const parsed = notifySchema().safeParse(notify, { error: schemaProblem })
  if (!parsed.success) return { targets: [], issues: [] }
  const issues: Issue[] = []
  const targets = parsed.data.flatMap(
    ({ url, secret, headers = {}, command, args = [], ...rest }, at): NotifyTarget[] => {
      const problems: string[] = []
      const secrets = new Set<string>()
      const resolved = (text: string): string => {
        const { text: value, missing } = substitute(text, (variable) => {
          if (schemeOf(variable) === undefined) {
            const set = lookUpVariable(variable, sources)
            if (set !== undefined && (set.from === ".env" || isSecretName(variable))) secrets.add(set.value)
            return set?.value
          }
          const found = sources.references?.(variable)
          // Who only checks the file does not ask for it.
          if (found === undefined) return `\${${variable}}`
          if ("value" in found) {
            secrets.add(found.value)
            return found.value
          }
          problems.push(`refers to \${${variable}}, ${found.problem}`)
          return ""
        })
        problems.push(...missing.map((variable) => `refers to ${variable}, which is not set`))
        return value
      }
      const on = rest.on ?? ALERT_KINDS
      const downAfter = rest.downAfter ?? DOWN_AFTER_MS
      const name = `notify[${at}]`
      const to: NotifyTarget["to"] =
        url === undefined
          ? { kind: "command", words: [command ?? "", ...args].map(resolved) }
          : {
              kind: "webhook",
              url: resolved(url),
              headers: Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, resolved(value)])),
              secret: secret === undefined ? undefined : resolved(secret),
            }
      if (to.kind === "command") {
        const [first = "", ...words] = to.words
        const settings = { command: first, args: words }
        for (const key of keysIn(settings)) secrets.add(keyText(settings, key))
      }
      const label = to.kind === "command" ? `${name} (${command})` : name + hostIn(to.url)
      const known = [...secrets].filter((one) => one.length >= LEAST_SECRET_CHARS)
      const target: NotifyTarget = { label, on, downAfter, secrets: known, to }
      if (problems.length === 0 && target.to.kind === "webhook" && !isWebAddress(target.to.url))
        problems.push("its url is not an address that begins with http:// or https://")
      const path = ["notify", at]
      issues.push(...problems.map((text) => issueAt(document, "error", "notify", path, `${name} is not used: ${text}`)))
      return problems.length === 0 ? [target] : []
    },
  )
  return { targets, issues }
}

/** Returns what must not be shown of targets: the values of their references, and keys, which addresses of webhooks often contain. */
export const notifySecrets = (targets: readonly NotifyTarget[]): readonly string[] =>
  targets.flatMap(({ to, secrets }) => {
    if (to.kind === "command") return secrets
    const { pathname, search, username, password } = new URL(to.url)
    const parts = [
      username,
      password,
      ...pathname.split("/").filter((part) => part.length >= LEAST_KEY_CHARS),
      search.slice(1),
    ]
    return [
      ...secrets,
      ...parts.filter((part) => part !== ""),
      ...Object.values(to.headers).flatMap(headerCredentials),
      ...(to.secret === undefined ? [] : [to.secret]),
    ]
  })

// ---

const DOWN_AFTER_MS = 5 * 60_000
/** Shorter parts of an address are words. */
const LEAST_KEY_CHARS = 16
/** Shorter values occur in many texts. */
const LEAST_SECRET_CHARS = 6

/** Whether a text is the address of a webhook, or a reference whose value is not known here. */
const isWebAddress = (text: string): boolean => text.startsWith("${") || (/^https?:/i.test(text) && URL.canParse(text))

/** Returns the host of an address for a label. */
const hostIn = (url: string): string => (URL.canParse(url) ? ` (${new URL(url).host})` : "")
