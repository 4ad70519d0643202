/** What presets select, for people: the entries under their names, and what is left out by which rule. Pure. */
import { type Catalog, type ServerPart, viewOf } from "../catalog/catalog.ts"
import { qualifyUri } from "../catalog/name.ts"
import type { Scope } from "../catalog/scope.ts"
import { excludedBy, nameKey, type RuledEntry } from "../catalog/view-rules.ts"
import type { Preset } from "../config/presets.ts"

/** One entry of a server: `entry` as in the rules of presets, such as `github/prompt:review`. */
type PresetEntry = {
  readonly entry: string
  /** Its name for clients; left out if the presets leave it out. */
  readonly name?: string
  /** For each preset in turn, the rule that leaves it out. */
  readonly rules?: readonly string[]
}

export type PresetReport = {
  readonly servers: readonly {
    readonly server: string
    readonly included: readonly PresetEntry[]
    readonly left: readonly PresetEntry[]
  }[]
  /** Names that two entries would share, so that both keep their qualified names. */
  readonly collisions: readonly string[]
}

/** Returns what a scope of these presets selects of the connected servers. */
export function presetReport(catalog: Catalog, scope: Scope, presets: readonly Preset[]): PresetReport {
  const view = viewOf(catalog, scope)
  const shown = new Map([...view.tools, ...view.prompts].map(([name, route]) => [nameKey(route.id, route.name), name]))
  const included = new Map(view.parts.map((part) => [part.spec.id, part]))
  return {
    servers: catalog.parts.map((part) => {
      const rows = entriesOf(part).map(({ entry, ruled, key }): PresetEntry => {
        const inView = included.get(part.spec.id)
        if (inView !== undefined && has(inView, ruled))
          return {
            entry,
            name: ruled.kind === "resource" ? qualifyUri(part.spec.slug, ruled.name) : (shown.get(key) ?? key),
          }
        return { entry, rules: presets.flatMap((preset) => excludedBy(preset, part.spec, ruled) ?? []) }
      })
      return {
        server: part.spec.name,
        included: rows.filter(({ name }) => name !== undefined),
        left: rows.filter(({ name }) => name === undefined),
      }
    }),
    collisions: view.collisions,
  }
}

// ---

function entriesOf({ spec, offered, listing }: ServerPart) {
  const row = (entry: string, ruled: RuledEntry, name: string) => ({
    entry: `${spec.name}/${entry}`,
    ruled,
    key: nameKey(spec.id, name),
  })
  return [
    ...[...offered.values()].map((tool) => row(tool.name, { kind: "tool", tool }, tool.name)),
    ...listing.prompts.map(({ name }) => row(`prompt:${name}`, { kind: "prompt", name }, name)),
    ...listing.resources.map(({ uri }) => row(`resource:${uri}`, { kind: "resource", name: uri }, uri)),
    ...listing.resourceTemplates.map(({ uriTemplate }) =>
      row(`resource:${uriTemplate}`, { kind: "resource", name: uriTemplate }, uriTemplate),
    ),
  ]
}

function has({ offered, listing }: ServerPart, entry: RuledEntry): boolean {
  switch (entry.kind) {
    case "tool":
      return offered.has(entry.tool.name)
    case "prompt":
      return listing.prompts.some(({ name }) => name === entry.name)
    case "resource":
      return (
        listing.resources.some(({ uri }) => uri === entry.name) ||
        listing.resourceTemplates.some(({ uriTemplate }) => uriTemplate === entry.name)
      )
  }
}
