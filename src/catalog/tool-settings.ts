/**
 * Applies the settings of a server to its tools: `disabledTools` hides tools from clients, and overrides replace parts of
 * their definitions. The settings name a tool by its local name or as `<server>_svc_<tool>`. spec: Server object.
 */
import { type ServerSpec, type ToolOverride, toolNames } from "../config/server-spec.ts"
import { isObject } from "../wire/message.ts"
import { type Tool, uniqueByName } from "./listing.ts"

/** A server and its settings that name tools. */
type SettingsOf<K extends "disabledTools" | "alwaysVisible" | OverridingSetting> = Pick<ServerSpec, "name" | "slug"> & {
  readonly tuning: Pick<ServerSpec["tuning"], K>
}

type OverridingSetting = "toolDescriptionOverrides" | "toolOverrides" | "alwaysLoad" | "searchHint"

/** Whether `disabledTools` names a tool. */
export function isHidden(server: SettingsOf<"disabledTools">, tool: string): boolean {
  const { disabledTools } = server.tuning
  return disabledTools.length > 0 && toolNames(server, tool).some((name) => disabledTools.includes(name))
}

/** Whether `alwaysVisible`, or a pattern among `more`, names a tool, so that lazy views list it. */
export function isAlwaysVisible(server: SettingsOf<"alwaysVisible">, tool: string, more: readonly string[]): boolean {
  const patterns = [...server.tuning.alwaysVisible, ...more]
  return (
    patterns.length > 0 && toolNames(server, tool).some((name) => patterns.some((one) => matchesPattern(name, one)))
  )
}

/** Whether a pattern, in which `*` stands for any characters, matches a name. Takes time up to the product of their lengths. */
export function matchesPattern(name: string, pattern: string): boolean {
  let [at, next] = [0, 0]
  let star: number | undefined
  let resumed = 0
  while (at < name.length) {
    if (pattern[next] === "*") {
      star = next++
      resumed = at
    } else if (pattern[next] === name[at]) {
      at++
      next++
    } else if (star !== undefined) {
      next = star + 1
      at = ++resumed
    } else return false
  }
  return /^\**$/.test(pattern.slice(next))
}

/** Returns the description that replaces a tool's own, or undefined. The setting for the local name wins. */
export function descriptionOverride(server: SettingsOf<"toolDescriptionOverrides">, tool: string): string | undefined {
  return valueFor(server, tool, server.tuning.toolDescriptionOverrides)
}

/** Returns the overrides of a tool: its own settings win over those of the whole server. */
function toolOverride(server: SettingsOf<OverridingSetting>, tool: string): ToolOverride {
  const { toolOverrides = {}, alwaysLoad, searchHint } = server.tuning
  return {
    ...(alwaysLoad === undefined ? {} : { alwaysLoad }),
    ...(searchHint === undefined ? {} : { searchHint }),
    ...valueFor(server, tool, toolOverrides),
  }
}

/** Returns a tool with its overrides, as clients see it, but under its own name. */
export function withOverrides(server: SettingsOf<OverridingSetting>, tool: Tool): Tool {
  if (overridesNothing(server)) return tool
  const description = descriptionOverride(server, tool.name)
  const { title, annotations, searchHint, alwaysLoad } = toolOverride(server, tool.name)
  const meta = {
    ...(searchHint === undefined ? {} : { [META_SEARCH_HINT]: searchHint }),
    ...(alwaysLoad === undefined ? {} : { [META_ALWAYS_LOAD]: alwaysLoad }),
  }
  const own = isObject(tool.annotations) ? tool.annotations : {}
  // Clients of older revisions read the title of the annotations.
  const titled = title !== undefined && own.title !== undefined ? { title } : {}
  return {
    ...tool,
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(annotations === undefined && !("title" in titled)
      ? {}
      : { annotations: { ...own, ...titled, ...annotations } }),
    ...(Object.keys(meta).length === 0 ? {} : { _meta: { ...(isObject(tool._meta) ? tool._meta : {}), ...meta } }),
  }
}

/** Returns the names in the overrides that match no tool; none if the tools are not known. */
export const unknownOverrides = (
  server: SettingsOf<OverridingSetting>,
  tools: readonly { readonly name: string }[] | undefined,
): readonly string[] => {
  const { toolDescriptionOverrides, toolOverrides = {} } = server.tuning
  const written = [...Object.keys(toolDescriptionOverrides), ...Object.keys(toolOverrides)]
  return tools === undefined ? [] : unknownNames(server, written, tools)
}

/** Returns the warning about names in the overrides that match no tool. */
export const unknownOverridesText = (names: readonly string[]): string =>
  `toolDescriptionOverrides or toolOverrides names tools that the server does not have: ${names.join(", ")}`

/** A tool of a server, as users see it. */
export type ToolRow = {
  readonly name: string
  /** The text that clients see; undefined if it is not known or there is none. */
  readonly description: unknown
  /** The server's own text, if an override replaces it. */
  readonly upstreamDescription?: unknown
  /** The other overrides of its definition. */
  readonly overrides?: ToolOverride
  readonly disabled: boolean
  /** Set if svc withholds the tool because it has changed. */
  readonly held?: true
  /** Set for a name in `disabledTools` that matches no tool. */
  readonly gone?: true
}

/** Returns why clients do not see a tool; empty if they do. */
export function toolState({ disabled, held, gone }: ToolRow): string {
  if (gone === true) return "disabled, gone"
  if (disabled) return "disabled"
  return held === true ? "changed, not approved" : ""
}

/** Returns the tools of a server, and the names in `disabledTools` that match no tool. `tools` is undefined if not known. */
export function toolRows(
  server: SettingsOf<"disabledTools" | OverridingSetting>,
  tools: readonly { readonly name: string; readonly description?: unknown }[] | undefined,
  isHeld: (tool: string) => boolean,
): readonly ToolRow[] {
  const gone = tools === undefined ? {} : { gone: true as const }
  return [
    ...uniqueByName(tools ?? []).map(({ name, description }): ToolRow => {
      const override = descriptionOverride(server, name)
      const overrides = toolOverride(server, name)
      return {
        name,
        description: override ?? description,
        ...(override === undefined ? {} : { upstreamDescription: description }),
        ...(Object.keys(overrides).length === 0 ? {} : { overrides }),
        disabled: isHidden(server, name),
        ...(isHeld(name) ? { held: true } : {}),
      }
    }),
    ...unknownNames(server, server.tuning.disabledTools, tools ?? []).map((name): ToolRow => {
      return { name, description: undefined, disabled: true, ...gone }
    }),
  ]
}

/** Returns " (2 hidden)" for texts that follow a count of tools; "" if none is hidden. */
export const hiddenNote = (hiddenTools = 0): string => (hiddenTools === 0 ? "" : ` (${hiddenTools} hidden)`)

/** An instance of a server; `listing` is undefined until it has one. */
type ToolSource = {
  readonly spec: SettingsOf<"disabledTools">
  readonly listing: { readonly tools: readonly { readonly name: string }[] } | undefined
}

/**
 * Whether `disabledTools` would hide all tools of a server that has enabled tools now. A template may run as several instances
 * with different tools: true if it would hide all tools of any instance.
 */
export function hidesEveryTool(instances: readonly ToolSource[], disabledTools: readonly string[]): boolean {
  return instances.some(({ spec, listing }) => {
    const enabled = (listing?.tools ?? []).filter(({ name }) => !isHidden(spec, name))
    const changed = { ...spec, tuning: { disabledTools } }
    return enabled.length > 0 && enabled.every(({ name }) => isHidden(changed, name))
  })
}

// ---

/** The members of `_meta` by which clients that load tools on demand find a tool, or load it at once. */
const META_SEARCH_HINT = "anthropic/searchHint"
const META_ALWAYS_LOAD = "anthropic/alwaysLoad"

/** Whether a server has no overrides. True for most servers, so that a start copies no tool. */
const overridesNothing = ({ tuning }: SettingsOf<OverridingSetting>): boolean =>
  tuning.alwaysLoad === undefined &&
  tuning.searchHint === undefined &&
  Object.keys(tuning.toolDescriptionOverrides).length === 0 &&
  Object.keys(tuning.toolOverrides ?? {}).length === 0

/** Returns the value of the setting for a tool, by the first of its names that the setting has. */
function valueFor<T>(
  server: Pick<ServerSpec, "name" | "slug">,
  tool: string,
  setting: Readonly<Record<string, T>>,
): T | undefined {
  const name = toolNames(server, tool).find((one) => Object.hasOwn(setting, one))
  return name === undefined ? undefined : setting[name]
}

/** Returns the names in `written` that match no tool. */
function unknownNames(
  server: Pick<ServerSpec, "name" | "slug">,
  written: readonly string[],
  tools: readonly { readonly name: string }[],
): readonly string[] {
  if (written.length === 0) return []
  const known = new Set(tools.flatMap(({ name }) => toolNames(server, name)))
  return [...new Set(written)].filter((name) => !known.has(name))
}
