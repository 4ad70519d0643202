/**
 * The entry of a server in a registry (server.json), read tolerantly: invalid parts are dropped. Text is data: bounded, without
 * control characters, never rendered and never run.
 */
import * as z from "zod"
import { isObject } from "../../wire/message.ts"

/** An input of server.json: a value that a server takes. */
export type Input = {
  readonly description?: string | undefined
  readonly value?: string | undefined
  readonly default?: string | undefined
  readonly isRequired?: boolean | undefined
  readonly isSecret?: boolean | undefined
  readonly choices?: readonly string[] | undefined
  /** The inputs for `{placeholders}` in `value`. */
  readonly variables?: Readonly<Record<string, Input>> | undefined
}
export type NamedInput = Input & { readonly name: string }
export type Argument = Input & {
  readonly type: "positional" | "named"
  readonly name?: string | undefined
  readonly valueHint?: string | undefined
}

export type PackageTransport = {
  readonly type: string
  readonly url?: string | undefined
  readonly headers: readonly NamedInput[]
  readonly variables?: Readonly<Record<string, Input>> | undefined
}

export type Package = {
  /** npm, pypi, oci, nuget, mcpb … */
  readonly registryType: string
  readonly identifier: string
  readonly version: string
  /** The package registry, if it is not the usual one of its type. */
  readonly registryBaseUrl?: string | undefined
  /** SHA-256 of the package's file, hexadecimal. */
  readonly fileSha256?: string | undefined
  readonly runtimeHint?: string | undefined
  readonly transport: PackageTransport
  readonly runtimeArguments: readonly Argument[]
  readonly packageArguments: readonly Argument[]
  readonly environmentVariables: readonly NamedInput[]
}

export type RegistryEntry = {
  /** The name of the registry that has this entry. */
  readonly registry: string
  readonly name: string
  readonly title?: string | undefined
  readonly description: string
  readonly version: string
  readonly repository?: string | undefined
  readonly websiteUrl?: string | undefined
  readonly packages: readonly Package[]
  readonly remotes: readonly PackageTransport[]
  /** active, deprecated or deleted. */
  readonly status: string
  /** Why it is not active, and perhaps what replaces it. */
  readonly statusMessage?: string | undefined
  readonly isLatest: boolean
  readonly publishedAt?: string | undefined
  readonly updatedAt?: string | undefined
}

/** Reads an element of a listing's `servers`, or the answer for one version. Returns undefined if it is invalid. */
export function readEntry(value: unknown, registry: string): RegistryEntry | undefined {
  if (!isObject(value)) return undefined
  const wrapped = isObject(value.server) ? value.server : value
  const parsed = serverJson.safeParse(wrapped)
  if (!parsed.success) return undefined
  const { repository, ...server } = parsed.data
  const meta = isObject(value._meta) ? value._meta[OFFICIAL] : undefined
  const official = officialMeta.safeParse(isObject(meta) ? meta : {})
  return {
    registry,
    ...server,
    repository: repository?.url,
    ...(official.data ?? { status: "active", isLatest: false }),
  }
}

/** Replaces control and invisible characters, which could drive a terminal or hide text, with spaces. Cuts after 4000 characters. */
export const cleanText = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
  text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/g, " ").slice(0, MAX_TEXT)

// ---

/** From: server.json, `name`. Prompts repeat it, so it must be one word. */
const NAME = /^[A-Za-z0-9.-]+\/[A-Za-z0-9._-]+$/
/** server.json allows any text, and recommends semantic versions. Prompts repeat it, so it must be one word. */
const VERSION = /^[\w.+!~:-]*$/

const OFFICIAL = "io.modelcontextprotocol.registry/official"
const MAX_TEXT = 4000
const MAX_ITEMS = 100

const text = z.string().transform(cleanText)
const word = text.pipe(z.string().trim().min(1).max(500))

/** A list without its invalid elements, of at most 100. */
const listOf = <T extends z.ZodType>(item: T) =>
  z
    .array(z.unknown())
    .catch([])
    .default([])
    .transform((items) =>
      items.slice(0, MAX_ITEMS).flatMap((one) => {
        const parsed = item.safeParse(one)
        return parsed.success ? [parsed.data] : []
      }),
    )

const scalar = z.union([z.string(), z.number(), z.boolean()]).transform((value) => cleanText(String(value)))
const inputShape = {
  description: text.optional().catch(undefined),
  value: scalar.optional().catch(undefined),
  default: scalar.optional().catch(undefined),
  isRequired: z.boolean().optional().catch(undefined),
  isSecret: z.boolean().optional().catch(undefined),
  choices: z.array(text).optional().catch(undefined),
}
const variables = z.record(z.string(), z.object(inputShape)).optional().catch(undefined)
const input = { ...inputShape, variables }
const namedInput = z.object({ ...input, name: word })
const argument = z.object({
  ...input,
  type: z.enum(["positional", "named"]),
  name: text.optional().catch(undefined),
  valueHint: text.optional().catch(undefined),
})
const transport = z.object({ type: word, url: text.optional(), headers: listOf(namedInput), variables })
const packageJson = z.object({
  registryType: word,
  identifier: word,
  version: text.default("").catch(""),
  registryBaseUrl: text.optional().catch(undefined),
  fileSha256: text.optional().catch(undefined),
  runtimeHint: text.optional().catch(undefined),
  transport: transport.catch({ type: "stdio", url: undefined, headers: [], variables: undefined }),
  runtimeArguments: listOf(argument),
  packageArguments: listOf(argument),
  environmentVariables: listOf(namedInput),
})
const serverJson = z.object({
  name: z.string().max(200).regex(NAME),
  title: text.optional().catch(undefined),
  description: text.default("").catch(""),
  version: z.string().max(255).regex(VERSION).default(""),
  websiteUrl: text.optional().catch(undefined),
  repository: z.object({ url: text }).optional().catch(undefined),
  packages: listOf(packageJson),
  remotes: listOf(transport),
})
const officialMeta = z.object({
  status: z.string().max(40).regex(/^\w+$/).default("active").catch("unknown"),
  statusMessage: text.optional().catch(undefined),
  isLatest: z.boolean().default(false).catch(false),
  publishedAt: text.optional().catch(undefined),
  updatedAt: text.optional().catch(undefined),
})
