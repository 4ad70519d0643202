/**
 * Keeps the logins of browsers in a private file of the configuration, so that a restart of svc does not end them. The file has
 * only hashes, from which nobody can log in. A malformed file counts as empty, and the next login replaces it.
 */
import { join } from "node:path"
import * as z from "zod"
import { makePrivateFolder, readState, replaceState } from "../../store/files.ts"
import { ownName, type Paths } from "../../store/paths.ts"
import type { LoginStore } from "./admin-login.ts"

/** Opens the logins of a configuration: other configurations of the same directory have their own. */
export function openLoginStore(paths: Pick<Paths, "directory" | "file">): LoginStore {
  const file = join(paths.directory, `${ownName("logins", paths)}.json`)
  return {
    load() {
      const { success, data } = document.safeParse(readState(file))
      return success ? data.logins : []
    },
    save(logins) {
      try {
        makePrivateFolder(paths.directory)
        replaceState(file, `${JSON.stringify({ logins })}\n`)
      } catch {
        // A full disk costs the logins at the next restart, but must not refuse one now.
      }
    },
  }
}

// ---

const hash = z.string().regex(/^[\w-]{43}$/)
const document = z.object({ logins: z.array(z.object({ secret: hash, csrf: hash, until: z.number() })) })
