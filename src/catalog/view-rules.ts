/**
 * The rules of presets: which entries of which servers a client sees, and under which names. Pure. A client has one or several groups of
 * rules (its address, its `.svcrc`, its credential): an entry is visible if each group has a rule that allows it.
 */
import type { Preset } from "../config/presets.ts"
import { SEPARATOR, type ServerSpec, slugOf } from "../config/server-spec.ts"
import { matchesFilter } from "../config/tag-filter.ts"
import type { Tool } from "./listing.ts"
import { isReadOnly } from "./signature.ts"
import { matchesPattern, withOverrides } from "./tool-settings.ts"

/** A server as rules see it. */
type RuledServer = Pick<ServerSpec, "name" | "slug" | "tuning">

/** An entry of a server: a resource by its URI or URI template. */
export type RuledEntry =
  | { readonly kind: "tool"; readonly tool: Tool }
  | { readonly kind: "prompt" | "resource"; readonly name: string }

/** How tools and prompts are named in a view. */
export type Naming = {
  /** New names of tools, by `server/tool`. */
  readonly names: ReadonlyMap<string, string>
  /** `server`: the name of the server; `none`: nothing; any other text: that text. */
  readonly prefix: string
  readonly separator: string
}

/** The part of a catalog that presets select, finer than servers. */
export type Shape = {
  /** Equal for equal shapes. */
  readonly key: string
  readonly groups: readonly (readonly Preset[])[]
  /** Whether it may include entries of a server. */
  readonly includes: (server: RuledServer) => boolean
  /** Undefined: the names that all clients see. */
  readonly naming: Naming | undefined
  /** Globs over `server/tool`, and the calls per minute that a credential may make of each tool. */
  readonly limits: readonly (readonly [pattern: string, perMinute: number])[]
}

/** Returns the shape of groups of presets; undefined if they select whole servers under their usual names. The first preset that states names, a prefix or a separator wins. */
export function shapeOf(groups: readonly (readonly Preset[])[]): Shape | undefined {
  const all = groups.flat()
  const isFiner = all.some(
    ({ servers, allow, deny, readOnly, new: added }) => (servers ?? allow ?? deny ?? readOnly) || added === "hold",
  )
  const naming = namingOf(all)
  const limits = all.flatMap((preset) => Object.entries(preset.limits ?? {}))
  if (!isFiner && naming === undefined && limits.length === 0) return undefined
  const key = JSON.stringify([
    groups.map((group) =>
      group.map(({ text, servers, allow, deny, readOnly, new: added, approved }) => [
        text,
        servers,
        allow,
        deny,
        readOnly === true,
        added === "hold" && [...(approved ?? [])],
      ]),
    ),
    naming && [[...naming.names], naming.prefix, naming.separator],
    limits,
  ])
  // Each call asks several times, and a server keeps its settings: a reload makes another object.
  const known = new WeakMap<RuledServer, boolean>()
  const includes = (server: RuledServer): boolean => {
    const before = known.get(server)
    if (before !== undefined) return before
    const found = groups.every((group) => group.some((preset) => presetIncludes(preset, server, server.tuning.tags)))
    known.set(server, found)
    return found
  }
  return { key, groups, includes, naming, limits }
}

/** Returns the shape that has only what both have, under the names of the first that states them. */
export function bothOf(one: Shape | undefined, other: Shape | undefined): Shape | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return {
    key: JSON.stringify([one.key, other.key]),
    groups: [...one.groups, ...other.groups],
    includes: (server) => one.includes(server) && other.includes(server),
    naming: one.naming ?? other.naming,
    limits: [...one.limits, ...other.limits],
  }
}

/** Returns the calls per minute that a shape allows a credential of a tool, by the tool's own name: the least of all that apply. */
export function limitIn(shape: Shape | undefined, server: RuledServer, name: string): number | undefined {
  let least: number | undefined
  for (const [pattern, perMinute] of shape?.limits ?? [])
    if ((least === undefined || perMinute < least) && matchesEntry(pattern, server, { kind: "tool", tool: { name } }))
      least = perMinute
  return least
}

/** Whether a shape includes an entry. */
export const shapeAllows = ({ groups }: Shape, server: RuledServer, entry: RuledEntry): boolean =>
  groups.every((group) => group.some((preset) => excludedBy(preset, server, entry) === undefined))

/** Returns the rule of a preset that leaves an entry out, in words; undefined if the preset includes it. */
export function excludedBy(preset: Preset, server: RuledServer, entry: RuledEntry): string | undefined {
  const reason = serverReason(preset, server, server.tuning.tags)
  if (reason !== undefined) return reason
  const { allow, deny = [], readOnly } = preset
  const denied = deny.find((pattern) => matchesEntry(pattern, server, entry))
  if (denied !== undefined) return `deny: ${denied}`
  if (allow?.some((pattern) => matchesEntry(pattern, server, entry)) === false) return NOT_ALLOWED
  if (readOnly === true && entry.kind === "tool" && !isReadOnly(withOverrides(server, entry.tool)))
    return "readOnly: it is not marked read-only"
  const { new: added, approved } = preset
  if (added === "hold" && entry.kind === "tool" && approved?.has(`${server.name}/${entry.tool.name}`) !== true)
    return NOT_APPROVED
  return undefined
}

/**
 * Returns the names of tools and prompts in a view, by the server's id and the own name; wanted names that two entries share, or that
 * `reserved` holds, are left out: such an entry keeps its qualified name.
 */
export function namesIn(
  naming: Naming,
  servers: readonly { readonly spec: ServerSpec; readonly names: readonly string[] }[],
  reserved: (name: string) => boolean,
): { readonly names: ReadonlyMap<string, string>; readonly collisions: readonly string[] } {
  const wanted = servers.flatMap(({ spec, names }) =>
    names.map((name) => ({
      key: nameKey(spec.id, name),
      name: wantedName(naming, spec, name),
      full: `${spec.slug}${SEPARATOR}${name}`,
    })),
  )
  const holders = new Map<string, number>()
  for (const { name } of wanted) holders.set(name, (holders.get(name) ?? 0) + 1)
  const qualified = new Map(wanted.map(({ full, key }) => [full, key]))
  const isTaken = ({ name, key }: (typeof wanted)[number]) =>
    (holders.get(name) ?? 0) > 1 || reserved(name) || ![undefined, key].includes(qualified.get(name))
  return {
    names: new Map(wanted.map((one) => [one.key, isTaken(one) ? one.full : one.name])),
    collisions: [...new Set(wanted.filter((one) => isTaken(one) && one.name !== one.full).map(({ name }) => name))],
  }
}

/** Returns the server and the own name that a name in a view stands for, although the server may not be connected; undefined if the naming does not tell. */
export function ownNameOf(
  { names, prefix, separator }: Naming,
  name: string,
): { readonly slug: string; readonly name: string } | undefined {
  const [given] = [...names].find(([, one]) => one === name) ?? []
  if (given !== undefined) {
    const slash = given.indexOf("/")
    return { slug: slugOf(given.slice(0, slash)), name: given.slice(slash + 1) }
  }
  const at = prefix === "server" ? name.indexOf(separator) : -1
  return at <= 0 ? undefined : { slug: slugOf(name.slice(0, at)), name: name.slice(at + separator.length) }
}

/** The key of an entry in the names of a view. */
export const nameKey = (id: string, name: string): string => `${id}\0${name}`

/** Whether a pattern of `servers` matches a server. */
const matchesServer = (pattern: string, { name, slug }: Pick<RuledServer, "name" | "slug">): boolean =>
  matchesSegments(name, pattern) || (slug !== name && matchesSegments(slug, pattern))

/** Whether a preset may include entries of a server with these tags. */
export const presetIncludes = (
  preset: Preset,
  server: Pick<RuledServer, "name" | "slug">,
  tags: readonly string[],
): boolean => serverReason(preset, server, tags) === undefined

/** The rule that leaves out a tool which nobody has approved for the preset. */
export const NOT_APPROVED = "new: it is not approved"

// ---

function namingOf(presets: readonly Preset[]): Naming | undefined {
  const first = presets.find(
    ({ names, prefix, separator }) => names !== undefined || prefix !== undefined || separator !== undefined,
  )
  if (first === undefined) return undefined
  const { names = {}, prefix = "server", separator = SEPARATOR } = first
  return { names: new Map(Object.entries(names)), prefix, separator }
}

function wantedName({ names, prefix, separator }: Naming, { name: server, slug }: RuledServer, name: string): string {
  const given = names.get(`${server}/${name}`) ?? names.get(`${slug}/${name}`)
  if (given !== undefined) return given
  if (prefix === "none") return name
  return `${prefix === "server" ? slug : prefix}${separator}${name}`
}

/** Returns why a preset leaves a whole server out, whatever its entries are; undefined if it does not. */
function serverReason(
  { filter, text, servers, allow, deny = [] }: Preset,
  server: Pick<RuledServer, "name" | "slug">,
  tags: readonly string[],
): string | undefined {
  if (!matchesFilter(filter, tags)) return `filter: ${text}`
  if (servers?.some((pattern) => matchesServer(pattern, server)) === false)
    return "servers: no pattern matches its server"
  const denied = deny.find((pattern) => restOf(pattern) === "*" && matchesServer(serverPartOf(pattern), server))
  if (denied !== undefined) return `deny: ${denied}`
  return allow?.some((pattern) => matchesServer(serverPartOf(pattern), server)) === false ? NOT_ALLOWED : undefined
}

const NOT_ALLOWED = "allow: no pattern matches it"

/** Returns the part of a pattern of `allow` or `deny` that stands for servers. */
function serverPartOf(pattern: string): string {
  const slash = pattern.indexOf("/")
  return slash < 0 ? pattern : pattern.slice(0, slash)
}

/** Returns the part of a pattern of `allow` or `deny` that stands for entries of its servers. */
function restOf(pattern: string): string {
  const slash = pattern.indexOf("/")
  return slash < 0 ? "*" : pattern.slice(slash + 1)
}

const KINDS = { prompt: "prompt:", resource: "resource:" } as const

/** Whether a pattern of `allow` or `deny` matches an entry: `server/tool`, `server/prompt:NAME`, `server/resource:URI`, or `server/*` for all of them. */
function matchesEntry(pattern: string, server: RuledServer, entry: RuledEntry): boolean {
  const rest = restOf(pattern)
  if (!matchesServer(serverPartOf(pattern), server)) return false
  if (rest === "*") return true
  const kind = Object.values(KINDS).find((one) => rest.startsWith(one))
  if (entry.kind === "tool") return kind === undefined && matchesSegments(entry.tool.name, rest)
  if (kind !== KINDS[entry.kind]) return false
  const inner = rest.slice(kind.length)
  return entry.kind === "resource" ? matchesPattern(entry.name, inner) : matchesSegments(entry.name, inner)
}

/** Whether a glob matches a text; `*` stands for any characters but `/`. */
function matchesSegments(text: string, pattern: string): boolean {
  // Runs for each call and pattern: most have one segment.
  if (!pattern.includes("/")) return !text.includes("/") && matchesPattern(text, pattern)
  const [texts, patterns] = [text.split("/"), pattern.split("/")]
  return texts.length === patterns.length && texts.every((one, at) => matchesPattern(one, patterns[at] ?? ""))
}
