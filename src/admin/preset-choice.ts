/** Which tools a person has ticked for a preset, and the rules of the preset that select exactly these. Pure. */

/** A tool of a server, by the server's own name. */
type Named = { readonly server: string; readonly name: string }

/** The ticked tools, as `server/tool`. */
export type Ticked = ReadonlySet<string>

/** Returns the key of a tool in the rules of presets. */
export const keyOfTool = ({ server, name }: Named): string => `${server}/${name}`

/**
 * Returns the members of a preset that include exactly the ticked tools. A server with all of its tools ticked is included whole,
 * with the tools that it adds later; of any other, only these tools, and all prompts and resources.
 */
export function rulesFor(
  tools: readonly Named[],
  ticked: Ticked,
): { readonly matches: readonly string[]; readonly allow: readonly string[] } {
  const servers = [...Map.groupBy(tools, ({ server }) => server)]
  const chosen = servers.filter(([, own]) => own.some((tool) => ticked.has(keyOfTool(tool))))
  const isWhole = (own: readonly Named[]) => own.every((tool) => ticked.has(keyOfTool(tool)))
  const matches = chosen.map(([server]) => server)
  if (chosen.every(([, own]) => isWhole(own))) return { matches, allow: [] }
  const allow = chosen.flatMap(([server, own]) =>
    isWhole(own)
      ? [`${server}/*`]
      : [
          ...own.filter((tool) => ticked.has(keyOfTool(tool))).map(({ name }) => `${server}/${name}`),
          `${server}/prompt:*`,
          `${server}/resource:*`,
        ],
  )
  return { matches, allow }
}

/** The boxes that a person has changed: whether each tool is ticked now. */
export type Changes = ReadonlyMap<string, boolean>

/** Returns the ticked tools after changes. */
export function withChanges(ticked: Ticked, changes: Changes): Ticked {
  const next = new Set(ticked)
  for (const [key, isTicked] of changes) {
    if (isTicked) next.add(key)
    else next.delete(key)
  }
  return next
}

type Rules = {
  readonly matches: readonly string[]
  readonly allow: readonly string[]
  readonly deny: readonly string[]
}

/** A preset as it is: its rules, and the names of the servers that it selects now. */
export type Ruled = { readonly [Key in keyof Rules]?: Rules[Key] | undefined } & {
  readonly filter: string
  readonly servers: readonly string[]
}

/**
 * Returns the rules of a preset after changes of its boxes. Boxes are only about tools of servers that are connected: rules for prompts
 * and resources stay, and so do those for servers without a changed box. A server without a ticked tool is left out whole.
 *
 * @param tools those that have boxes
 * @param ticked those whose boxes were ticked before the changes
 * @param known the names of all servers
 */
export function rulesAfter(
  before: Ruled,
  tools: readonly Named[],
  ticked: Ticked,
  changes: Changes,
  known: readonly string[],
): Rules & { readonly filter?: "" } {
  const after = withChanges(ticked, changes)
  const changed = new Map<string, Edited>()
  for (const [server, own] of Map.groupBy(tools, (tool) => tool.server)) {
    const isTicked = (set: Ticked) => own.map((tool) => set.has(keyOfTool(tool)))
    if (isTicked(after).join() !== isTicked(ticked).join())
      changed.set(server, { own, chosen: own.filter((tool) => after.has(keyOfTool(tool))) })
  }
  const matches = matchesAfter(before, changed)
  // The tags of a server that is new here may not fit.
  const dropsFilter = before.filter !== "" && addedIn(before, changed).length > 0
  return {
    ...(dropsFilter ? { filter: "" } : {}),
    matches,
    allow: allowAfter(before, changed),
    deny: denyAfter(before, changed, matches, known),
  }
}

/** Returns the name of a preset for what a person has typed: names are part of an address. */
export const presetName = (text: string): string => (text.slice(0, MAX_NAME).match(/[\w.]+/g) ?? []).join("-")

// ---

const MAX_NAME = 64

/** The rules for all prompts and resources of a server. */
const OFFERS: readonly string[] = ["prompt:*", "resource:*"]
const OFFER = /^(?:prompt|resource):/

/** A server with a changed box: its tools, and those that are ticked now. */
type Edited = { readonly own: readonly Named[]; readonly chosen: readonly Named[] }
type Changed = ReadonlyMap<string, Edited>

const chosenIn = (changed: Changed): readonly string[] =>
  [...changed].flatMap(([server, { chosen }]) => (chosen.length > 0 ? [server] : []))

/** Returns the servers of which the preset has included nothing until now. */
const addedIn = ({ servers }: Ruled, changed: Changed): readonly string[] =>
  chosenIn(changed).filter((server) => !servers.includes(server))

const unchangedOf = (servers: readonly string[], changed: Changed): readonly string[] =>
  servers.filter((server) => !changed.has(server))

function matchesAfter(before: Ruled, changed: Changed): readonly string[] {
  const { filter, servers, matches = [] } = before
  const added = addedIn(before, changed)
  if (filter !== "" && added.length > 0) return [...unchangedOf(servers, changed), ...chosenIn(changed)]
  if (matches.length === 0) return []
  const dropped = [...changed].flatMap(([server, { chosen }]) => (chosen.length === 0 ? [server, slugOf(server)] : []))
  const left = matches.filter((pattern) => !dropped.includes(pattern))
  const next = [...left, ...added.filter((server) => !left.some((pattern) => isServer(pattern, server)))]
  // Without any, the preset would select all servers.
  return next.length === 0 ? matches : next
}

function allowAfter({ servers, allow = [] }: Ruled, changed: Changed): readonly string[] {
  const others = unchangedOf(servers, changed)
  const rules = [...changed].flatMap(([server, { own, chosen }]) => {
    if (chosen.length === 0) return []
    const offers =
      allow.length === 0 || !servers.includes(server) ? OFFERS : allow.flatMap((pattern) => offersOf(pattern, server))
    const isWhole = chosen.length === own.length && OFFERS.every((offer) => offers.includes(offer))
    const rests = isWhole ? ["*"] : [...chosen.map(({ name }) => name), ...new Set(offers)]
    return rests.map((rest) => `${server}/${rest}`)
  })
  if (allow.length === 0)
    return rules.every((rule) => rule.endsWith("/*")) ? [] : [...others.map((server) => `${server}/*`), ...rules]
  const left = allow.flatMap((pattern) =>
    isAboutTools(pattern, changed, ({ own, chosen }) => own.filter((tool) => !chosen.includes(tool)))
      ? patternsFor(pattern, others)
      : [pattern],
  )
  return [...new Set([...left, ...rules])]
}

function denyAfter(
  { deny = [] }: Ruled,
  changed: Changed,
  matches: readonly string[],
  known: readonly string[],
): readonly string[] {
  const others = unchangedOf(known, changed)
  const left = deny.flatMap((pattern) =>
    isAboutTools(pattern, changed, ({ chosen }) => chosen) ? patternsFor(pattern, others) : [pattern],
  )
  const isSelected = (server: string) => matches.length === 0 || matches.some((pattern) => isServer(pattern, server))
  const dropped = [...changed].flatMap(([server, { chosen }]) => (chosen.length === 0 ? [server] : []))
  return [...new Set([...left, ...dropped.filter(isSelected).map((server) => `${server}/*`)])]
}

/** Whether a pattern matches one of these tools of a changed server. */
const isAboutTools = (pattern: string, changed: Changed, toolsOf: (edited: Edited) => readonly Named[]): boolean =>
  [...changed].some(([server, edited]) => {
    const rest = restFor(pattern, server)
    return rest !== undefined && toolsOf(edited).some(({ name }) => isGlobOf(rest, name))
  })

/** Returns the patterns that say of these servers what a pattern says of all that it matches. */
const patternsFor = (pattern: string, servers: readonly string[]): readonly string[] =>
  servers.flatMap((server) => {
    const rest = restFor(pattern, server)
    return rest === undefined ? [] : [`${server}/${rest}`]
  })

/** Returns what a pattern says about the prompts and resources of a server. */
function offersOf(pattern: string, server: string): readonly string[] {
  const rest = restFor(pattern, server) ?? ""
  if (rest === "*") return OFFERS
  return OFFER.test(rest) ? [rest] : []
}

/** Returns what a pattern says about a server, as in `server/rest`; undefined if it is about others. */
function restFor(pattern: string, server: string): string | undefined {
  const slash = pattern.indexOf("/")
  if (!isServer(slash < 0 ? pattern : pattern.slice(0, slash), server)) return undefined
  return slash < 0 ? "*" : pattern.slice(slash + 1)
}

/** Returns the form of a server's name in the names of its tools; rules may use it too (`config/server-spec.ts`). */
const slugOf = (name: string): string => name.replace(/[^A-Za-z0-9_-]/g, "-")

/** Whether a glob is about a server, by its name or by its slug. */
const isServer = (glob: string, name: string): boolean => isGlobOf(glob, name) || isGlobOf(glob, slugOf(name))

/** Whether a glob, in which `*` stands for any characters, matches a name. */
function isGlobOf(glob: string, name: string): boolean {
  const [first = "", ...parts] = glob.split("*")
  const last = parts.pop()
  if (last === undefined) return glob === name
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false
  let rest = name.slice(first.length, name.length - last.length)
  return parts.every((part) => {
    const at = rest.indexOf(part)
    rest = rest.slice(at + part.length)
    return at >= 0
  })
}
