/**
 * The last listings of servers that may sleep, as files: svc offers them before the servers have started. A listing belongs to one
 * launch: to a command with its arguments, its folder and its environment.
 */
import { existsSync, readdirSync, unlinkSync } from "node:fs"
import { join } from "node:path"
import type { ServerSpec } from "../config/server-spec.ts"
import { digest } from "../lib/digest.ts"
import { repeatsSecret } from "../lib/redact.ts"
import { makePrivateFolder, readState, replaceState } from "./files.ts"
import { ownName, type Paths } from "./paths.ts"

export type ListingStore = {
  /** Returns the last listing of a server with this launch, as it was stored; undefined if there is none. */
  read(spec: ServerSpec): unknown
  /**
   * Stores a listing, unless it repeats a secret of the server. A failure is ignored: without a listing, the server is started once
   * to list.
   */
  write(spec: ServerSpec, listing: object): void
  /** Removes the listings of all servers but those with these names. A failure is ignored. */
  keep(names: ReadonlySet<string>): void
}

/** Opens the listings of a configuration. */
export function openListings(paths: Paths): ListingStore {
  const folder = join(paths.directory, ownName("listings", paths))
  // Begins with the name, so that the files of a template's instances are kept as long as the template.
  const fileOf = ({ id, name }: ServerSpec) =>
    join(folder, `${digest(name, NAME_CHARS)}${id === name ? "" : `-${digest(id, 16)}`}.json`)
  return {
    read(spec) {
      const { launch, mark, listing } = readState(fileOf(spec)) ?? {}
      // A listing that somebody has changed may have any shape.
      return launch === launchOf(spec) && mark === markOf(JSON.stringify(listing)) ? listing : undefined
    },
    write(spec, listing) {
      try {
        // Rendered once: it may have megabytes.
        const rendered = JSON.stringify(listing)
        const text = `{"launch":"${launchOf(spec)}","mark":"${markOf(rendered)}","listing":${rendered}}\n`
        if (text.length > MAX_CHARS || repeatsSecret(text, spec.secrets)) return
        makePrivateFolder(folder)
        const isNew = !existsSync(fileOf(spec))
        replaceState(fileOf(spec), text)
        if (isNew) removeOldest(folder)
      } catch {
        // A full disk must not stop a server.
      }
    },
    keep(names) {
      try {
        const known = new Set([...names].map((name) => digest(name, NAME_CHARS)))
        for (const file of readdirSync(folder))
          if (!known.has(file.slice(0, NAME_CHARS))) unlinkSync(join(folder, file))
      } catch {
        // There is no folder yet, or the files stay until the next time.
      }
    },
  }
}

// ---

const MAX_CHARS = 8_000_000
const MAX_FILES = 1000
/** Characters of a file's name that stand for the name of the server. */
const NAME_CHARS = 16

/** Identifies a launch. Its environment may have secrets, so it is not stored itself. */
const launchOf = ({ launch }: ServerSpec): string => digest(JSON.stringify(launch), 32)

/** Identifies the JSON text of a listing, in this form of it. */
const markOf = (text: string): string => digest(`1 ${text}`, 32)

/** Keeps the folder bounded: instances of templates come and go. */
function removeOldest(folder: string): void {
  const files = readdirSync(folder)
  for (const file of files.slice(0, files.length - MAX_FILES)) unlinkSync(join(folder, file))
}
