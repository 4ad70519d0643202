/**
 * What each server's tools were when they were first seen, kept by hash in the configuration directory, so that a tool
 * that becomes another one between two starts does not go unnoticed. A broken or missing file is an empty memory.
 */
import { readFileSync } from "node:fs"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { isObject } from "../wire/message.ts"
import { replaceState } from "./files.ts"

export type ToolPins = {
  /**
   * Compares what a server lists (hashes by tool) with what is remembered, and remembers tools that are new. Gives the
   * names of those that have changed.
   */
  check(server: string, tools: ReadonlyMap<string, string>): readonly string[]
  /** Takes what was listed last for right, of all tools or of one. Gives the names of those that had changed. */
  approve(server: string, tool: string | undefined): readonly string[]
}

/** `file` undefined keeps to memory. */
export function createToolPins(file: string | undefined, clock: Clock): ToolPins {
  const known = new BoundedMap<string, Map<string, Pin>>(MAX_SERVERS, read(file))
  let saving = false
  const save = () => {
    if (file === undefined || saving) return
    saving = true
    // A start sees many servers at once: they are written together.
    clock.after(SAVE_MS, () => {
      saving = false
      const value = Object.fromEntries([...known].map(([server, tools]) => [server, Object.fromEntries(tools)]))
      try {
        replaceState(file, `${JSON.stringify(value)}\n`)
      } catch {
        // A folder that cannot be written to: what is remembered lives as long as the process.
      }
    })
  }
  return {
    check(server, tools) {
      const pins = known.get(server) ?? new Map<string, Pin>()
      known.set(server, pins)
      const changed: string[] = []
      let news = false
      for (const [tool, hash] of tools) {
        const pin = pins.get(tool)
        if (pin === undefined) {
          if (pins.size >= MAX_TOOLS) continue
          pins.set(tool, { hash })
          news = true
        } else if (pin.hash === hash) {
          news ||= pin.seen !== undefined
          pins.set(tool, { hash })
        } else {
          changed.push(tool)
          news ||= pin.seen !== hash
          pins.set(tool, { hash: pin.hash, seen: hash })
        }
      }
      if (news) save()
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

/** The hash that counts and, where another one was listed since, that. */
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
