/** Says in a few words what differs between two texts of mcp.json. Pure. */
import { isSameValue } from "../lib/json.ts"
import { isObject, type Params } from "../wire/message.ts"
import { parseDocument } from "./document.ts"
import { SECTIONS, writtenServers } from "./edit.ts"
import { isDisabled } from "./plan.ts"

/**
 * Returns what has changed from one text to the other by the names of servers and settings, never by their values, such as
 * `added a; changed b (env, tags)`. Empty if the texts are equal. A malformed text counts as one without servers.
 */
export function documentChanges(before: string, after: string): string {
  if (before === after) return ""
  const [old, now] = [contentOf(before), contentOf(after)]
  const names = [...now.servers.keys()]
  const common = names.flatMap((name) => {
    const [one, other] = [old.servers.get(name), now.servers.get(name)]
    if (one === undefined || other === undefined || isSameValue(one, other)) return []
    const keys = differing(one.server, other.server)
    return [{ name, keys, isSwitch: keys.join() === "disabled", isOff: isDisabled(other.server) }]
  })
  const changed = common.filter(({ isSwitch }) => !isSwitch)
  const switched = (isOff: boolean) => common.flatMap((one) => (one.isSwitch && one.isOff === isOff ? [one.name] : []))
  const parts = [
    ["added", names.filter((name) => !old.servers.has(name))],
    ["removed", [...old.servers.keys()].filter((name) => !now.servers.has(name))],
    ["disabled", switched(true)],
    ["enabled", switched(false)],
    [
      "changed",
      [
        ...changed.map(({ name, keys }) => (keys.length === 0 ? name : `${name} (${keys.join(", ")})`)),
        ...differing(old.settings, now.settings),
      ],
    ],
  ] as const
  const shown = parts.flatMap(([verb, found]) => (found.length === 0 ? [] : [`${verb} ${found.join(", ")}`]))
  return shown.length === 0 ? "changed only comments, order or whitespace" : shown.join("; ")
}

// ---

type Content = { readonly servers: ReturnType<typeof writtenServers>; readonly settings: Params }

/** Returns the servers of a text, and its other members. */
function contentOf(text: string): Content {
  try {
    const { value } = parseDocument(text, "mcp.json")
    // A member of a section that is no object is no server.
    const settings = Object.entries(isObject(value) ? value : {}).filter(
      ([key]) => !SECTIONS.some((one) => one === key),
    )
    return { servers: writtenServers(text), settings: Object.fromEntries(settings) }
  } catch {
    return { servers: new Map(), settings: {} }
  }
}

const differing = (one: Params, other: Params): readonly string[] =>
  [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((key) => !isSameValue(one[key], other[key]))
