/** Whom svc tells about problems: `notify` in mcp.json. */
import type { Issue } from "../lib/errors.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { headerCredentials } from "./credentials.ts"
import { type Document, issueAt } from "./document.ts"
import { type EnvironmentSources, lookUpVariable, schemeOf } from "./environment.ts"
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
      const resolved = (text: string): string => {
        const { text: value, missing } = substitute(text, (variable) => {
          if (schemeOf(variable) === undefined) return lookUpVariable(variable, sources)?.value
          const found = sources.references?.(variable)
          // Who only checks the file does not ask for it.
          if (found === undefined) return `\${${variable}}`
          if ("value" in found) return found.value
          problems.push(`refers to \${${variable}}, ${found.problem}`)
          return ""
        })
        problems.push(...missing.map((variable) => `refers to ${variable}, which is not set`))
        return value
      }
      const on = rest.on ?? ALERT_KINDS
      const downAfter = rest.downAfter ?? DOWN_AFTER_MS
      const name = `notify[${at}]`
      const target: NotifyTarget =
        url === undefined
          ? {
              label: `${name} (${command})`,
              on,
              downAfter,
              to: { kind: "command", words: [command ?? "", ...args].map(resolved) },
            }
          : webhook(name, { on, downAfter }, resolved(url), {
              headers: Object.fromEntries(Object.entries(headers).map(([key, value]) => [key, resolved(value)])),
              secret: secret === undefined ? undefined : resolved(secret),
            })
      if (problems.length === 0 && target.to.kind === "webhook" && !isWebAddress(target.to.url))
        problems.push("its url is not an address that begins with http:// or https://")
      const path = ["notify", at]
      issues.push(...problems.map((text) => issueAt(document, "error", "notify", path, `${name} is not used: ${text}`)))
      return problems.length === 0 ? [target] : []
    },
  )
  return { targets, issues }
}

/** Returns what must not be shown of targets: addresses of webhooks often contain a key. */
export const notifySecrets = (targets: readonly NotifyTarget[]): readonly string[] =>
  targets.flatMap(({ to }) => {
    if (to.kind === "command") return []
    const { pathname, search, username, password } = new URL(to.url)
    const parts = [
      username,
      password,
      ...pathname.split("/").filter((part) => part.length >= LEAST_KEY_CHARS),
      search.slice(1),
    ]
    return [
      ...parts.filter((part) => part !== ""),
      ...Object.values(to.headers).flatMap(headerCredentials),
      ...(to.secret === undefined ? [] : [to.secret]),
    ]
  })

// ---

const DOWN_AFTER_MS = 5 * 60_000
/** Shorter parts of an address are words. */
const LEAST_KEY_CHARS = 16

/** Whether a text is the address of a webhook, or a reference whose value is not known here. */
const isWebAddress = (text: string): boolean => text.startsWith("${") || (/^https?:/i.test(text) && URL.canParse(text))

function webhook(
  name: string,
  rest: Pick<NotifyTarget, "on" | "downAfter">,
  url: string,
  to: Pick<Extract<NotifyTarget["to"], { kind: "webhook" }>, "headers" | "secret">,
): NotifyTarget {
  const host = URL.canParse(url) ? ` (${new URL(url).host})` : ""
  return { label: `${name}${host}`, ...rest, to: { kind: "webhook", url, ...to } }
}
