/**
 * The definitions of tools as they were pinned, only on disk: svc reads them only to show what has changed since. A broken or
 * missing file is an empty store. Bounded: a definition that does not fit is not kept, and its change is shown without the old
 * text.
 */
import { join } from "node:path"
import { isObject, type Params } from "../wire/message.ts"
import { readState, replaceState } from "./files.ts"
import { ownName, type Paths } from "./paths.ts"

/** A definition with its pinned hash. */
export type PinnedDefinition = { readonly hash: string; readonly definition: Params }

export type ToolDefinitions = ReadonlyMap<string, PinnedDefinition>

/** Returns the path of the definitions of a configuration. */
export const toolDefinitionsFile = (paths: Paths): string =>
  join(paths.directory, `${ownName("tool-definitions", paths)}.json`)

/** Returns the definitions by server and tool. */
export function readDefinitions(file: string): ReadonlyMap<string, ToolDefinitions> {
  return new Map(
    membersOf(readState(file)).map(([server, tools]) => [
      server,
      new Map(membersOf(tools).flatMap(([tool, one]) => (isPinned(one) ? [[tool, one]] : []))),
    ]),
  )
}

/** Writes the definitions that fit, servers in their order. Throws if the folder is not writable. */
export function writeDefinitions(file: string, all: Iterable<readonly [string, ToolDefinitions]>): void {
  let left = MAX_CHARACTERS
  const servers = [...all].map(([server, tools]) => {
    const kept = [...tools].flatMap(([tool, one]) => {
      const text = JSON.stringify(one)
      if (text.length > Math.min(MAX_DEFINITION, left)) return []
      left -= text.length
      return [`${JSON.stringify(tool)}:${text}`]
    })
    return `${JSON.stringify(server)}:{${kept.join(",")}}`
  })
  replaceState(file, `{${servers.join(",\n")}}\n`)
}

// ---

const MAX_DEFINITION = 64 * 1024
const MAX_CHARACTERS = 8 * 1024 * 1024

const membersOf = (value: unknown): [string, unknown][] => Object.entries(isObject(value) ? value : {})

const isPinned = (value: unknown): value is PinnedDefinition =>
  isObject(value) && typeof value.hash === "string" && isObject(value.definition)
