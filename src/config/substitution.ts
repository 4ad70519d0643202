/**
 * Substitutes variables in configured text: `$NAME`, `${NAME}`, and `${env:NAME}` as Cursor and VS Code write it.
 * spec: Environment substitution; choice: `$$`, `${NAME:-default}`.
 */
export type Substituted = {
  readonly text: string
  /** The names of unset variables. */
  readonly missing: readonly string[]
  /** The values of references, which may be secret. */
  readonly values: readonly string[]
}

/** Replaces the references in `text` once: references in values stay. Any other `$` stays. */
export function substitute(text: string, lookup: (name: string) => string | undefined): Substituted {
  if (!text.includes("$")) return { text, missing: [], values: [] }
  const missing: string[] = []
  const values: string[] = []
  const resolved = (name: string, fallback: string | undefined): string => {
    const found = lookup(name)
    // As in a shell, `:-` also stands in for an empty value.
    const value = fallback !== undefined && (found === undefined || found === "") ? fallback : found
    if (value === undefined) {
      missing.push(name)
      return ""
    }
    if (value !== "" && value !== fallback) values.push(value)
    return value
  }
  const { closed, rest } = atLastBrace(text)
  const replaced =
    closed.replace(REFERENCE, (_whole, escaped?: string, bare?: string, braced?: string, fallback?: string) =>
      escaped === undefined ? resolved(bare ?? braced ?? "", fallback) : "$",
    ) +
    rest.replace(BARE_REFERENCE, (_whole, escaped?: string, bare?: string) =>
      escaped === undefined ? resolved(bare ?? "", undefined) : "$",
    )
  return { text: replaced, missing, values }
}

/**
 * Returns text that a user typed in the syntax of mcp.json. A `$` is text, as in the password `s3c$ret$$`, except in a reference
 * in braces, and in `$NAME` as the whole text. `$${` stays: it is the way to write `${` itself.
 */
export function escapeTyped(text: string): string {
  if (WHOLE_NAME.test(text)) return text
  const { closed, rest } = atLastBrace(text)
  return (
    closed.replace(TYPED, (dollar, kept?: string) => (kept === undefined ? "$$" : dollar)) +
    rest.replace(BARE_DOLLAR, () => "$$")
  )
}

/** Returns the names of the variables that a text refers to. */
export function referencesIn(text: string): readonly string[] {
  const names: string[] = []
  substitute(text, (name) => {
    names.push(name)
    return ""
  })
  return names
}

// ---

/** Cuts a text after its last `}`: in the rest, the search for the end of a reference would take quadratic time. */
function atLastBrace(text: string): { readonly closed: string; readonly rest: string } {
  const end = text.lastIndexOf("}") + 1
  return { closed: text.slice(0, end), rest: text.slice(end) }
}

const WHOLE_NAME = /^\$[A-Za-z_]\w*$/
/** Matches `$${` and references in braces, which stay, and every other `$` that `substitute` would replace. */
const TYPED = /(\$?\$\{(?:env:)?(?:[A-Za-z_]\w*|(?:input|command):[^}]*)(?::-[^}]*)?\})|\$(?=[$A-Za-z_])/g

/** The same in a text without `}`. */
const BARE_DOLLAR = /\$(?=[$A-Za-z_])/g

/** Matches VS Code's prompts (`${input:…}`) too: they count as missing, rather than reach a server literally. */
const REFERENCE =
  /\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|(?:input|command):[^}]*)(?::-([^}]*))?\})/g
/** The same in a text without `}`. */
const BARE_REFERENCE = /\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*))/g
