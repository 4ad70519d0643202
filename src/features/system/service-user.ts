/** The user as whom a service of the machine runs svc: whether it exists, can run the program and write its directories. */
import { statSync } from "node:fs"
import { dirname } from "node:path"

export type ServiceUser = {
  readonly name: string
  readonly uid: number
  readonly gids: readonly number[]
  /** Undefined if the system does not tell. */
  readonly home: string | undefined
}

/** Runs a command, and returns what it wrote; undefined if it failed. */
export type Asking = (command: readonly string[]) => string | undefined

/** Finds a user of the system; undefined if there is none of this name. */
export function findUser(name: string, ask: Asking): ServiceUser | undefined {
  const uid = ask(["id", "-u", "--", name])?.trim()
  const gids = ask(["id", "-G", "--", name])?.trim().split(/\s+/).map(Number) ?? []
  if (uid === undefined || !/^\d+$/.test(uid)) return undefined
  const home = ask(["getent", "passwd", name])?.trim().split(":")[5]
  return { name, uid: Number(uid), gids, home: home === "" ? undefined : home }
}

/** Returns the first folder or file on the way to a program that a user may not enter or run; undefined if it can run it. */
export function closedTo(user: ServiceUser, program: string, facts: FactsOf = systemFacts): string | undefined {
  const folders: string[] = []
  for (let folder = dirname(program); ; folder = dirname(folder)) {
    folders.unshift(folder)
    if (folder === dirname(folder)) break
  }
  return [...folders, program].find((path) => !may(user, facts(path), EXECUTE))
}

/** Whether a user can write a folder, or create it. */
export function canWrite(user: ServiceUser, folder: string, facts: FactsOf = systemFacts): boolean {
  const found = facts(folder)
  if (found !== undefined) return may(user, found, WRITE)
  return folder !== dirname(folder) && canWrite(user, dirname(folder), facts)
}

// ---

type Facts = { readonly mode: number; readonly uid: number; readonly gid: number }
/** Returns who owns a path and what its owner, group and others may do; undefined if it does not exist. */
type FactsOf = (path: string) => Facts | undefined

const systemFacts: FactsOf = (path) => statSync(path, { throwIfNoEntry: false })

const EXECUTE = 1
const WRITE = 2

function may({ uid, gids }: ServiceUser, facts: Facts | undefined, right: number): boolean {
  if (facts === undefined) return false
  if (uid === 0) return true
  if (facts.uid === uid) return (facts.mode & (right << 6)) !== 0
  return (facts.mode & (gids.includes(facts.gid) ? right << 3 : right)) !== 0
}
