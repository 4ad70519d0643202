/**
 * Plans changes of mcp.json and `.env`: what a server is called there, what the texts become, and whether they are valid.
 * Pure but for `context`, which tells the environment that the documents are planned in.
 */
import { isDeepStrictEqual } from "node:util"
import { parseDocument } from "../config/document.ts"
import { addVariables } from "../config/dotenv.ts"
import { type Edit, writtenServers } from "../config/edit.ts"
import { slugOf } from "../config/server-spec.ts"
import { sha256 } from "../lib/digest.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { canonical } from "../lib/json.ts"
import { nearest } from "../lib/nearest.ts"
import type { Bundle } from "../registry/bundle.ts"
import type { AppliedChange, DocumentChange, WrittenDocuments } from "../store/transaction.ts"
import { planDocument } from "../template/instance.ts"
import { isObject, type Params } from "../wire/message.ts"
import { externalizeSecrets, fillPlaceholders, type SecretLocations } from "./externalize-secrets.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** The part of the context that planning needs. */
export type PlanContext = { readonly editor: Pick<ToolContext["editor"], "world"> }

/** Returns the name under which a server is written; its slug leads to it too. Throws a ToolError (not_found). */
export function resolveServerName(config: string, given: string): string {
  const names = [...writtenServers(config).keys()]
  const found = names.find((name) => name === given) ?? names.find((name) => slugOf(name) === given)
  if (found !== undefined) return found
  const near = nearest(given, names)
  const message = `No server is named ${given.slice(0, MAX_NAME)}`
  if (near !== undefined) throw new ToolError("not_found", `${message}; did you mean ${near}?`)
  throw new ToolError("not_found", message, { hint: { tool: "mcp_list", args: {}, does: "shows the servers" } })
}

/** Returns a server as it is written in mcp.json; an empty one if it is not there. */
export const writtenServer = (config: string, name: string): Params => writtenServers(config).get(name)?.server ?? {}

/**
 * Returns the warnings about documents as they would be after a change. Throws a ToolError if the change leaves a server
 * out.
 */
export function validateChange({ editor }: PlanContext, before: WrittenDocuments, after: WrittenDocuments): string[] {
  const issuesOf = ({ config, dotenv }: WrittenDocuments): readonly Issue[] => {
    try {
      const document = parseDocument(config, "mcp.json")
      const world = editor.world(dotenv)
      return planDocument(document, world).plan.issues
    } catch (error) {
      if (error instanceof ConfigError) return error.issues
      throw error
    }
  }
  // The same message may be about another server.
  const keyOf = ({ server = "", message }: Issue) => `${server} ${message}`
  const known = new Set(issuesOf(before).map(keyOf))
  const fresh = issuesOf(after).filter((issue) => !known.has(keyOf(issue)))
  const errors = fresh.filter(({ severity }) => severity === "error")
  if (errors.length > 0) throw new ToolError("invalid_argument", errors.map(({ message }) => message).join("; "))
  return fresh.map(({ message }) => message)
}

/**
 * Throws a ToolError (conflict) if a server, or what `serverDefaults` adds to it, is not written as it was in the documents
 * that the person was asked about.
 */
export function requireUnchanged(written: WrittenDocuments, asked: WrittenDocuments, name: string): void {
  const [now, before] = [written, asked].map(({ config }) => [writtenServers(config).get(name), defaultsIn(config)])
  if (isDeepStrictEqual(now, before)) return
  throw new ToolError("conflict", `${name} was changed in the meantime`, {
    hint: { tool: "mcp_status", args: { serverName: name, details: true }, does: "shows it as it is now" },
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

/** Returns a plan's digest for an answer: to a terminal alone, since short secrets can be guessed from a digest. */
export const digestFor = ({ terminal }: Pick<ToolContext, "terminal">, digest: string): string | undefined =>
  terminal === undefined ? undefined : digest

/** Throws a ToolError (conflict) if the person at the terminal was shown another plan: a registry may answer anew each time. */
export function requireAgreed({ terminal }: Pick<ToolContext, "terminal">, digest: string): void {
  if (terminal?.agreed === undefined || terminal.agreed === digest) return
  throw new ToolError(
    "conflict",
    "What would run now is not what was shown: the registry or mcp.json has changed in the meantime. Nothing was changed; run the command again",
  )
}

/** Makes an edit of mcp.json a change of both documents. */
export const configChange =
  (edit: Edit): DocumentChange =>
  ({ config, dotenv }) => ({ config: edit(config), dotenv })

/** A server that is to be written. */
export type ServerWrite = {
  readonly name: string
  /** The server with placeholders for secrets inside of texts. */
  readonly server: Params
  readonly secrets: SecretLocations
  /** Puts the server into mcp.json; `safe` has references in place of its secrets. */
  edit(safe: Params): Edit
}

/** Both documents with a server written. */
export type PlannedWrite = {
  readonly documents: WrittenDocuments
  /** The variables that mcp.json refers to in place of the server's secrets. */
  readonly references: readonly string[]
  readonly warnings: readonly string[]
}

/** Plans the writing of a server into documents as they are at that moment. Throws a ToolError if that leaves a server out. */
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
  return { documents, references, warnings: validateChange(context, written, documents) }
}

/**
 * Returns what takes a written server out of documents that another program has changed since: the variables that were added
 * to `.env` go, and `undo` edits mcp.json if the server is still in it.
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

/** Returns the merge patch (RFC 7396) that makes one object the other. */
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

/** Returns `serverDefaults` as written. */
const defaultsIn = (config: string): unknown => parseDocument(config, "mcp.json").value.serverDefaults

/** Characters of an unknown name that an error repeats. */
const MAX_NAME = 200
