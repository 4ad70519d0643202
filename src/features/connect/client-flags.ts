/** Flags of the `mcp add` of Codex and Gemini CLI that svc writes in another way, or that have no effect in svc. */
import { usageError } from "../../lib/command-line.ts"

/** What the flags mean for a server. */
type ClientFlags = {
  readonly headers: Readonly<Record<string, string>>
  readonly disabledTools: readonly string[]
  readonly notes: readonly string[]
}

/** Flags as a person has typed them. */
type TypedFlags = {
  /** Whether `--trust` is among them. */
  readonly trusts: boolean
  valuesOf(flag: string): readonly string[]
}

/** Reads the flags for the server `name`. Throws a RequestError (usage) for a variable without a name. */
export function clientFlags(name: string, { trusts, valuesOf }: TypedFlags): ClientFlags {
  const listOf = (flag: string) =>
    valuesOf(flag)
      .flatMap((values) => values.split(","))
      .map((value) => value.trim())
      .filter((value) => value !== "")
  const [variable] = valuesOf("bearer-token-env-var")
  if (variable !== undefined && !/^[A-Za-z_]\w{0,200}$/.test(variable))
    throw usageError("--bearer-token-env-var must be the name of a variable")
  const included = listOf("include-tools").map((tool) => `${name}/${tool}`)
  return {
    headers: variable === undefined ? {} : { Authorization: `Bearer \${${variable}}` },
    disabledTools: listOf("exclude-tools"),
    notes: [
      ...(included.length === 0
        ? []
        : [
            `--include-tools has no effect; \`svc preset create NAME --allow "${included.join(",")}"\` limits the tools`,
          ]),
      ...(trusts ? ["--trust has no effect: clients decide which calls need approval"] : []),
    ],
  }
}
