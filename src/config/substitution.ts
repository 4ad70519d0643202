/**
 * `$NAME` and `${NAME}` in configured text, and `${env:NAME}`, as Cursor and VS Code write it. spec: Environment
 * substitution; choice: `$$`, `${NAME:-default}`.
 */

export type Substituted = {
  readonly text: string
  /** Names that are set nowhere. */
  readonly missing: readonly string[]
  /** Values that came from a reference: they may be secret. */
  readonly values: readonly string[]
}

/** Replaces the references in `text`. A `$` that begins none stays as it is. Values are not looked into again. */
export function substitute(text: string, lookup: (name: string) => string | undefined): Substituted {
  if (!text.includes("$")) return { text, missing: [], values: [] }
  const missing: string[] = []
  const values: string[] = []
  const replaced = text.replace(
    REFERENCE,
    (
      _whole,
      escaped: string | undefined,
      bare: string | undefined,
      braced: string | undefined,
      fallback: string | undefined,
    ) => {
      if (escaped !== undefined) return "$"
      const name = bare ?? braced ?? ""
      const found = lookup(name)
      // As in a shell, `:-` also stands in for an empty value.
      const value = fallback !== undefined && (found === undefined || found === "") ? fallback : found
      if (value === undefined) {
        missing.push(name)
        return ""
      }
      if (value !== "" && value !== fallback) values.push(value)
      return value
    },
  )
  return { text: replaced, missing, values }
}

// ---

/** What VS Code asks a person for is set nowhere: better missed than handed on as it stands. */
const REFERENCE =
  /\$(?:(\$)|([A-Za-z_][A-Za-z0-9_]*)|\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*|(?:input|command):[^}]*)(?::-([^}]*))?\})/g
