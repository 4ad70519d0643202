/** The MCP registries to search: `registries` in mcp.json, in their order; the official one if the key is missing. */
import { ConfigError } from "../lib/errors.ts"
import { createRedactor } from "../lib/redact.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { headerCredentials, urlCredentials } from "./credentials.ts"
import { type Document, issueAt } from "./document.ts"
import { type EnvironmentSources, lookUpVariable, schemeOf } from "./environment.ts"
import { schemas } from "./lazy-schema.ts"
import { substitute } from "./substitution.ts"

/** A registry's address and headers, with references resolved. */
export type RegistrySource = {
  readonly name: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The values of the references in its address. */
  readonly secrets: readonly string[]
}

/** Returns the values of a registry's address and headers that must not be shown. */
export const registrySecrets = ({ url, headers, secrets }: RegistrySource): readonly string[] => [
  ...secrets,
  ...urlCredentials(url),
  ...Object.values(headers).flatMap(headerCredentials),
]

/** Returns the address of a registry without its credentials, to show to users. */
export const redactedUrl = (source: RegistrySource): string =>
  createRedactor(registrySecrets(source)).maskCredentials(source.url)

const OFFICIAL_REGISTRY: RegistrySource = {
  name: "official",
  url: "https://registry.modelcontextprotocol.io",
  headers: {},
  secrets: [],
}

/** Reads the enabled registries of a document. Throws a ConfigError if one is invalid or refers to an unset variable. */
export function readRegistries(document: Document, sources: EnvironmentSources): readonly RegistrySource[] {
  const { registries } = document.value
  if (registries === undefined) return [OFFICIAL_REGISTRY]
  const problem = (message: string) =>
    new ConfigError([issueAt(document, "error", "registries", ["registries"], message)])
  const parsed = schemas().registriesSchema().safeParse(registries, { error: schemaProblem })
  if (!parsed.success)
    throw problem(parsed.error.issues.map(({ path, message }) => `registries.${path.join(".")}: ${message}`).join("; "))
  return parsed.data
    .filter(({ disabled }) => disabled !== true)
    .map(({ name, url, headers = {} }) => {
      const resolved = (written: string) => {
        const { text, missing, values } = substitute(written, (variable) => {
          if (schemeOf(variable) === undefined) return lookUpVariable(variable, sources)?.value
          const found = sources.references?.(variable) ?? { problem: "which only a running svc resolves" }
          if ("problem" in found) throw problem(`registry ${name} refers to \${${variable}}, ${found.problem}`)
          return found.value
        })
        if (missing.length > 0) throw problem(`registry ${name} refers to ${missing.join(", ")}, which is not set`)
        return { text, values }
      }
      const address = resolved(url)
      return {
        name,
        url: address.text,
        headers: Object.fromEntries(Object.entries(headers).map(([header, value]) => [header, resolved(value).text])),
        secrets: address.values,
      }
    })
}
