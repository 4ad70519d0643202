/**
 * Plans changes of mcp.json and `.env`: resolves the name of a server, returns the changed texts, and checks that they are valid.
 * Pure except for `context`, which provides the environment for planning.
 */
import { isDeepStrictEqual } from "node:util"
import { parseDocument } from "../../config/document.ts"
import { addVariables } from "../../config/dotenv.ts"
import { type Edit, writtenServers } from "../../config/edit.ts"
import { externalizeSecrets, fillPlaceholders, type SecretLocations } from "../../config/externalize-secrets.ts"
import { isUnset } from "../../config/plan.ts"
import { slugOf } from "../../config/server-spec.ts"
import { sha256 } from "../../lib/digest.ts"
import { canonical } from "../../lib/json.ts"
import { nearest } from "../../lib/nearest.ts"
import type { AppliedChange, DocumentChange, WrittenDocuments } from "../../store/transaction.ts"
import { judgeEdit } from "../../template/edit-judgement.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { Bundle } from "../registry/bundle.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** The part of the context that planning needs. */
export type PlanContext = { readonly editor: Pick<ToolContext["editor"], "world"> }

/** Returns the name of a server in the file, from its name or slug. Throws a ToolError (not_found). */
export function resolveServerName(config: string, given: string): string {
  const names = [...writtenServers(config).keys()]
  const found = names.find((name) => name === given) ?? names.find((name) => slugOf(name) === given)
  if (found !== undefined) return found
  const near = nearest(given, names)
  const message = `No server is named ${given.slice(0, MAX_NAME)}`
  if (near !== undefined) throw new ToolError("not_found", `${message}; did you mean ${near}?`)
  throw new ToolError("not_found", message, { hint: { tool: "mcp_list", args: {}, does: "shows the servers" } })
}

/** Returns a server as written in mcp.json; an empty object if it is not there. */
export const writtenServer = (config: string, name: string): Params => writtenServers(config).get(name)?.server ?? {}

/** Returns the warnings about a change of the documents. Throws a ToolError if it must not be written. */
export function validateChange({ editor }: PlanContext, before: WrittenDocuments, after: WrittenDocuments): string[] {
  const { refused, warnings } = judgeEdit(before, after, editor.world)
  if (refused.length > 0) throw invalidChange(refused.map(({ message }) => message))
  return warnings.map(({ message }) => message)
}

/**
 * Throws a ToolError (conflict) if a server, or what `serverDefaults` adds to it, has changed since the documents about which the
 * person was asked.
 */
export function requireUnchanged(written: WrittenDocuments, asked: WrittenDocuments, name: string): void {
  const [now, before] = [written, asked].map(({ config }) => [writtenServers(config).get(name), defaultsIn(config)])
  if (isDeepStrictEqual(now, before)) return
  throw new ToolError("conflict", `${name} was changed in the meantime`, {
    hint: { tool: "mcp_status", args: { serverName: name, details: true }, does: "shows its current settings" },
  })
}

/** Returns a digest of everything that decides what a server runs: the server with its secrets, the defaults and its bundle. */
export const digestOf = (
  { name, server, secrets }: Pick<ServerWrite, "name" | "server" | "secrets">,
  { config }: WrittenDocuments,
  bundle: Bundle | undefined,
): string =>
  sha256(
    canonical({ name, server: fillPlaceholders(server, secrets), defaults: defaultsIn(config), bundle: bundle?.hash }),
    "hex",
  )

/** Returns a plan's digest for an answer: only to a terminal, because short secrets can be guessed from a digest. */
export const digestFor = ({ terminal }: Pick<ToolContext, "terminal">, digest: string): string | undefined =>
  terminal === undefined ? undefined : digest

/** Throws a ToolError (conflict) if the person at the terminal saw another plan: a registry may change its answer. */
export function requireAgreed({ terminal }: Pick<ToolContext, "terminal">, digest: string): void {
  if (terminal?.agreed === undefined || terminal.agreed === digest) return
  throw new ToolError(
    "conflict",
    "What would run now differs from what was shown: the registry or mcp.json has changed in the meantime. Nothing was changed; run the command again",
  )
}

/** Converts an edit of mcp.json into a change of both documents. */
export const configChange =
  (edit: Edit): DocumentChange =>
  ({ config, dotenv }) => ({ config: edit(config), dotenv })

/** A server to be written. */
export type ServerWrite = {
  readonly name: string
  /** The server, with placeholders for secrets within texts. */
  readonly server: Params
  readonly secrets: SecretLocations
  /** Returns the edit that writes the server to mcp.json; `safe` has references instead of its secrets. */
  edit(safe: Params): Edit
}

/** Both documents after a server is written. */
export type PlannedWrite = {
  readonly documents: WrittenDocuments
  /** The variables to which mcp.json refers instead of the server's secrets. */
  readonly references: readonly string[]
  readonly warnings: readonly string[]
}

/** Plans the writing of a server into the current documents. Throws a ToolError if that makes a server invalid. */
export function planWrite(
  context: PlanContext,
  { name, server, secrets, edit }: ServerWrite,
  written: WrittenDocuments,
): PlannedWrite {
  const world = context.editor.world(written.dotenv)
  const { server: safe, variables, references } = externalizeSecrets(server, slugOf(name).toUpperCase(), secrets, world)
  const isNew = Object.keys(variables).length > 0
  const dotenv = isNew ? addVariables(written.dotenv, variables, ".env") : written.dotenv
  const documents = { config: edit(safe)(written.config), dotenv }
  const warnings = validateChange(context, written, documents)
  // An installation ends when the server is connected, and a server without a variable does not start.
  if (warnings.some(isUnset)) throw invalidChange(warnings.filter(isUnset))
  return { documents, references, warnings }
}

/**
 * Returns the change that undoes the writing of a server in documents that another program may have changed since: removes the
 * variables that were added to `.env`, and applies `undo` to mcp.json if the server is still in it.
 */
export const reverseWrite =
  (name: string, undo: Edit, { before, after }: Pick<AppliedChange, "before" | "after">): DocumentChange =>
  ({ config, dotenv }) => {
    const added = after.dotenv.slice(before.dotenv.length)
    return {
      config: writtenServers(config).has(name) ? undo(config) : config,
      dotenv: added === "" ? dotenv : dotenv.replace(added, () => ""),
    }
  }

/** Returns the merge patch (RFC 7396) that converts one object into the other. */
export function mergePatchOf(from: Params, to: Params): Params {
  const patch: Record<string, unknown> = {}
  for (const key of Object.keys(from)) if (to[key] === undefined) patch[key] = null
  for (const [key, value] of Object.entries(to)) {
    const old = from[key]
    if (isObject(old) && isObject(value)) {
      const inner = mergePatchOf(old, value)
      if (Object.keys(inner).length > 0) patch[key] = inner
    } else if (JSON.stringify(old) !== JSON.stringify(value)) patch[key] = value
  }
  return patch
}

/** Returns an object with a merge patch (RFC 7396) applied. */
export function withMergePatch(target: Params, patch: Params): Params {
  const result: Record<string, unknown> = { ...target }
  for (const [key, value] of Object.entries(patch)) {
    const old = result[key]
    if (value === null) delete result[key]
    else result[key] = isObject(value) ? withMergePatch(isObject(old) ? old : {}, value) : value
  }
  return result
}

// ---

const invalidChange = (problems: readonly string[]): ToolError => new ToolError("invalid_argument", problems.join("; "))

/** Returns `serverDefaults` as written. */
const defaultsIn = (config: string): unknown => parseDocument(config, "mcp.json").value.serverDefaults

/** The most characters of an unknown name that an error repeats. */
const MAX_NAME = 200
