/**
 * Fingerprints of each server's tools as first seen, stored in the configuration directory, so that svc detects a tool that
 * changes between two starts. A broken or missing file is an empty store. The definitions themselves are in a file beside it
 * (tool-definitions.ts), which a start does not read.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { BoundedMap } from "../lib/bounded-map.ts"
import type { Clock } from "../lib/clock.ts"
import { isObject, type Params } from "../wire/message.ts"
import { readState, replaceState } from "./files.ts"
import { ownName, type Paths } from "./paths.ts"
import {
  type PinnedDefinition,
  readDefinitions,
  type ToolDefinitions,
  toolDefinitionsFile,
  writeDefinitions,
} from "./tool-definitions.ts"

export type ToolPins = {
  /**
   * Compares the tools that a server lists (hashes by name) with the pins, and pins new tools. Returns the names of tools
   * that differ from their pins. `definitionOf` returns the definition to keep of a pinned tool.
   */
  check(
    server: string,
    tools: ReadonlyMap<string, string>,
    definitionOf: (tool: string) => Params | undefined,
  ): readonly string[]
  /**
   * Pins the last listed hash of one tool, or of all tools; with `hash`, only if the last listed hash is `hash`. Returns the
   * names of tools that had changed.
   */
  approve(server: string, tool: string | undefined, hash?: string): readonly string[]
  /** Returns the pinned definitions of the tools of servers, by server and tool, as far as they were kept. Reads a file. */
  definitions(servers: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, Params>>
}

/** The pins of one svc, which a cluster compares with those of the other replicas. */
export type OwnToolPins = ToolPins & {
  /** Returns the pinned hashes of a server's tools as they are now. */
  pinned(server: string): ReadonlyMap<string, string>
  /** Pins a hash in place of the pinned one, if any, because another replica saw the tool first. */
  pin(server: string, tool: string, hash: string): void
}

/** The files of the pins of a configuration. */
export type ToolPinFiles = { readonly pins: string; readonly definitions: string }

export const toolPinFiles = (paths: Paths): ToolPinFiles => ({
  pins: toolPinsFile(paths),
  definitions: toolDefinitionsFile(paths),
})

/** Returns the path of the pins of a configuration. */
export const toolPinsFile = (paths: Paths): string => join(paths.directory, `${ownName("tools", paths)}.json`)

/** Returns the names of all tools of a server, or of a template's instances, that were ever pinned. */
export const pinnedTools = (file: string, server: string): readonly string[] => [
  ...new Set(
    read(file).flatMap(([id, tools]) => (id === server || id.startsWith(`${server}#`) ? [...tools.keys()] : [])),
  ),
]

/** Creates the pins; only in memory, and without definitions, if `files` is undefined. */
export function createToolPins(files: ToolPinFiles | undefined, clock: Clock): OwnToolPins {
  const known = new BoundedMap<string, Map<string, Pin>>(MAX_SERVERS, read(files?.pins))
  // Servers without up-to-date definitions: old versions of svc kept none, and an approval changes the pin.
  const incomplete = new Set(files === undefined || existsSync(files.definitions) ? [] : known.keys())
  const unsaved = new Map<string, ToolDefinitions>()
  let saving = false
  const save = (ms = SAVE_MS) => {
    if (files === undefined || saving) return
    saving = true
    // A start lists many servers at once: write them together.
    clock.after(ms, () => {
      saving = false
      const value = Object.fromEntries([...known].map(([server, tools]) => [server, Object.fromEntries(tools)]))
      try {
        replaceState(files.pins, `${JSON.stringify(value)}\n`)
        if (unsaved.size > 0) saveDefinitions(files.definitions)
        unsaved.clear()
      } catch {
        // The disk may be full: the pins are in memory until it is not.
        save(RETRY_MS)
      }
    })
  }
  const saveDefinitions = (file: string) => {
    const kept = readDefinitions(file)
    const merged = [...known].map(([server, pins]): [string, ToolDefinitions] => {
      const all = [...(kept.get(server) ?? []), ...(unsaved.get(server) ?? [])]
      return [server, new Map(all.filter(([tool, { hash }]) => pins.get(tool)?.hash === hash))]
    })
    writeDefinitions(file, merged)
  }
  return {
    check(server, tools, definitionOf) {
      const pins = known.get(server) ?? new Map<string, Pin>()
      known.set(server, pins)
      const changed: string[] = []
      let isDirty = incomplete.has(server)
      for (const [tool, hash] of tools) {
        const pin = pins.get(tool)
        if (pin === undefined) {
          if (pins.size >= MAX_TOOLS) continue
          pins.set(tool, { hash })
          incomplete.add(server)
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
      if (files !== undefined && incomplete.has(server)) unsaved.set(server, definitionsOf(pins, tools, definitionOf))
      incomplete.delete(server)
      if (isDirty) save()
      return changed
    },
    approve(server, tool, hash) {
      const approved: string[] = []
      for (const [name, pin] of known.get(server) ?? []) {
        if (pin.seen === undefined || (tool !== undefined && tool !== name)) continue
        if (hash !== undefined && pin.seen !== hash) continue
        known.get(server)?.set(name, { hash: pin.seen })
        approved.push(name)
      }
      if (approved.length > 0) {
        incomplete.add(server)
        save()
      }
      return approved
    },
    pinned: (server) => new Map([...(known.get(server) ?? [])].map(([tool, { hash }]) => [tool, hash])),
    pin(server, tool, hash) {
      const pins = known.get(server) ?? new Map<string, Pin>()
      const seen = pins.get(tool)?.hash
      known.set(server, pins.set(tool, seen === undefined ? { hash } : { hash, seen }))
      save()
    },
    definitions(servers) {
      if (files === undefined || servers.length === 0) return new Map()
      const stored = readDefinitions(files.definitions)
      return new Map(
        servers.map((server) => {
          const pins = known.get(server)
          const kept = [...(stored.get(server) ?? []), ...(unsaved.get(server) ?? [])]
          const valid = kept.filter(([tool, { hash }]) => pins?.get(tool)?.hash === hash)
          return [server, new Map(valid.map(([tool, { definition }]) => [tool, definition]))]
        }),
      )
    },
  }
}

// ---

/** The pinned hash, and the hash that was last listed, if it differs. */
type Pin = { readonly hash: string; readonly seen?: string }

const SAVE_MS = 500
/** How long svc waits before it writes pins again that could not be written. */
const RETRY_MS = 60_000
const MAX_SERVERS = 1000
const MAX_TOOLS = 5000

/** Returns the definitions of the listed tools that match their pins. */
const definitionsOf = (
  pins: ReadonlyMap<string, Pin>,
  tools: ReadonlyMap<string, string>,
  definitionOf: (tool: string) => Params | undefined,
): ToolDefinitions =>
  new Map(
    [...tools].flatMap(([tool, hash]): [string, PinnedDefinition][] => {
      const definition = pins.get(tool)?.hash === hash ? definitionOf(tool) : undefined
      return definition === undefined ? [] : [[tool, { hash, definition }]]
    }),
  )

function read(file: string | undefined): [string, Map<string, Pin>][] {
  if (file === undefined) return []
  return Object.entries(readState(file) ?? {}).map(([server, tools]) => [
    server,
    new Map(Object.entries(isObject(tools) ? tools : {}).flatMap(([tool, pin]) => (isPin(pin) ? [[tool, pin]] : []))),
  ])
}

const isPin = (value: unknown): value is Pin =>
  isObject(value) && typeof value.hash === "string" && (value.seen === undefined || typeof value.seen === "string")
