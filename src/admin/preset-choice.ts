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

/** Returns a set with or without some members. */
export function withTicks(ticked: Ticked, keys: readonly string[], isTicked: boolean): Ticked {
  const next = new Set(ticked)
  for (const key of keys) {
    if (isTicked) next.add(key)
    else next.delete(key)
  }
  return next
}

/** Returns the name of a preset for what a person has typed: names are part of an address. */
export const presetName = (text: string): string => (text.slice(0, MAX_NAME).match(/[\w.]+/g) ?? []).join("-")

// ---

const MAX_NAME = 64
