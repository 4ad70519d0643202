/**
 * Fingerprints of each server's tools as first seen, kept in the configuration directory, so that a tool that changes between
 * two starts is noticed. A broken or missing file is an empty store.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { isObject } from "../wire/message.ts"
import { replaceState } from "./files.ts"
import { ownName, type Paths } from "./paths.ts"

export type ToolPins = {
  /**
   * Compares the tools that a server lists (hashes by name) with the pins, and pins new tools. Returns the names of tools
   * that differ from their pins.
   */
  check(server: string, tools: ReadonlyMap<string, string>): readonly string[]
  /** Pins the last listed hash of one tool, or of all tools. Returns the names of tools that had changed. */
  approve(server: string, tool: string | undefined): readonly string[]
}

/** Returns the path of the pins of a configuration. */
export const toolPinsFile = (paths: Paths): string => join(paths.directory, `${ownName("tools", paths)}.json`)

/** Returns the names of the tools of a server, or of a template's instances, that were ever pinned; none if none was seen. */
export const pinnedTools = (file: string, server: string): readonly string[] => [
  ...new Set(
    read(file).flatMap(([id, tools]) => (id === server || id.startsWith(`${server}#`) ? [...tools.keys()] : [])),
  ),
]

/** Creates the pins; in memory alone if `file` is undefined. */
export function createToolPins(file: string | undefined, clock: Clock): ToolPins {
  const known = new BoundedMap<string, Map<string, Pin>>(MAX_SERVERS, read(file))
  let saving = false
  const save = () => {
    if (file === undefined || saving) return
    saving = true
    // A start lists many servers at once: write them together.
    clock.after(SAVE_MS, () => {
      saving = false
      const value = Object.fromEntries([...known].map(([server, tools]) => [server, Object.fromEntries(tools)]))
      try {
        replaceState(file, `${JSON.stringify(value)}\n`)
      } catch {
        // The folder is not writable: the pins live as long as the process.
      }
    })
  }
  return {
    check(server, tools) {
      const pins = known.get(server) ?? new Map<string, Pin>()
      known.set(server, pins)
      const changed: string[] = []
      let isDirty = false
      for (const [tool, hash] of tools) {
        const pin = pins.get(tool)
        if (pin === undefined) {
          if (pins.size >= MAX_TOOLS) continue
          pins.set(tool, { hash })
          isDirty = true
        } else if (pin.hash === hash) {
          isDirty ||= pin.seen !== undefined
          pins.set(tool, { hash })
        } else {
          changed.push(tool)
          isDirty ||= pin.seen !== hash
          pins.set(tool, { hash: pin.hash, seen: hash })
        }
      }
      if (isDirty) save()
      return changed
    },
    approve(server, tool) {
      const approved: string[] = []
      for (const [name, pin] of known.get(server) ?? []) {
        if (pin.seen === undefined || (tool !== undefined && tool !== name)) continue
        known.get(server)?.set(name, { hash: pin.seen })
        approved.push(name)
      }
      if (approved.length > 0) save()
      return approved
    },
  }
}

// ---

/** The pinned hash and, if another one was listed since, that. */
type Pin = { readonly hash: string; readonly seen?: string }

const SAVE_MS = 500
const MAX_SERVERS = 1000
const MAX_TOOLS = 5000

function read(file: string | undefined): [string, Map<string, Pin>][] {
  if (file === undefined) return []
  try {
    const value: unknown = JSON.parse(readFileSync(file, "utf8"))
    return Object.entries(isObject(value) ? value : {}).map(([server, tools]) => [
      server,
      new Map(Object.entries(isObject(tools) ? tools : {}).flatMap(([tool, pin]) => (isPin(pin) ? [[tool, pin]] : []))),
    ])
  } catch {
    return []
  }
}

const isPin = (value: unknown): value is Pin =>
  isObject(value) && typeof value.hash === "string" && (value.seen === undefined || typeof value.seen === "string")
