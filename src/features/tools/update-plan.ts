/**
 * Plans the update of a server that came from a registry. Keeps what the person has set: values, settings, and arguments that the
 * installed version does not have by default. Pure except for `context`, which provides the environment and the machine.
 */
import { isDeepStrictEqual } from "node:util"
import { patchServer } from "../../config/edit.ts"
import { literals } from "../../config/externalize-secrets.ts"
import { isDisabled } from "../../config/plan.ts"
import { changedSettings, quoted } from "../../config/server-text.ts"
import { writtenValues } from "../../config/written-values.ts"
import type { AppliedChange, DocumentChange, WrittenDocuments } from "../../store/transaction.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { Bundle } from "../registry/bundle.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import {
  argumentValues,
  type InputValues,
  type Installable,
  type RequestedInput,
  remoteOf,
} from "../registry/install-plan.ts"
import { bundleText, planEntry } from "./bundle.ts"
import { audienceOf, commandFor, inheritedText, type Proposal, type Question, questionOn } from "./consent-text.ts"
import { originFor, registryLabel, withPlaceholders } from "./install-draft.ts"
import { digestOf, mergePatchOf, planWrite, requireUnchanged, reverseWrite, writtenServer } from "./plan-change.ts"
import { originOf, type ServerOrigin } from "./registry-entries.ts"
import { type ToolContext, ToolError } from "./tool.ts"

export type UpdateRequest = {
  readonly name: string
  readonly origin: ServerOrigin
  readonly documents: WrittenDocuments
  /** The entry of the requested version. */
  readonly entry: RegistryEntry
  /** The entry of the installed version; undefined if its registry no longer has it. */
  readonly installed: RegistryEntry | undefined
  readonly bundle: Bundle | undefined
  /** The values that the caller passed, by name. */
  readonly env: Readonly<Record<string, string>>
}

export type UpdatePlan = {
  readonly name: string
  readonly from: string
  readonly to: string
  readonly bundle: Bundle | undefined
  /** Whether the server must connect. */
  readonly enabled: boolean
  readonly missing: readonly RequestedInput[]
  readonly warnings: readonly string[]
  /** The command for answers, with the caller's secrets hidden. */
  readonly command: string
  /** The additions of serverDefaults to the command. */
  readonly inherited: string | undefined
  readonly question: Question
  /** The digest of everything that determines what runs. */
  readonly digest: string
  readonly change: DocumentChange
  reverse(made: Pick<AppliedChange, "before" | "after">): DocumentChange
}

/** Plans an update. Throws a ToolError (conflict) if svc cannot run the new version. */
export function planUpdate(
  context: Pick<ToolContext, "editor" | "machine" | "terminal">,
  request: UpdateRequest,
): UpdatePlan {
  const { name, origin, documents, entry, bundle, env } = request
  const server = writtenServer(documents.config, name)
  const { values: given, hidden } = withPlaceholders(entry, env, bundle)
  const found = valuesOf(server, request)
  const values = bundle === undefined ? { ...found.values, ...given } : { ...origin.values, ...given }
  const plan = planEntry(context, name, entry, { values, type: origin.type, bundle })
  if ("reason" in plan) throw new ToolError("conflict", `${entry.name} ${entry.version} cannot be run: ${plan.reason}`)
  // Arguments that the entry does not explain may be the person's, so they stay.
  const keepsArgs = !found.hasArguments && bundle === undefined
  const next: Params = {
    ...server,
    ...plan.server,
    ...(keepsArgs ? keptArguments(server, plan, origin) : {}),
    ...mergedValues(plan.type === "remote" ? "headers" : "env", { server, planned: plan.server, given, bundle }),
    installedFrom: originFor(entry, plan, bundle === undefined ? {} : values),
  }
  const secrets = { names: plan.secret, hidden, kept: keptNames(server, given) }
  const proposal: Proposal = {
    server: next,
    secrets,
    kept: writtenValues(server),
    given: literals(env),
    known: server,
    config: documents.config,
    lines: changedSettings(server, next),
  }
  const audience = audienceOf(context)
  const hasOwnArgs = keepsArgs && plan.package !== undefined
  const differs = hasOwnArgs && !isDeepStrictEqual(next.args, plan.server.args)
  const ownCommand = commandFor(audience, { ...proposal, server: plan.server })
  const from = bundle === undefined ? "" : `, ${bundleText(bundle)},`
  const write = { name, server: next, secrets, edit: (safe: Params) => patchServer(name, mergePatchOf(server, safe)) }
  return {
    name,
    from: origin.version,
    to: entry.version,
    bundle,
    enabled: !isDisabled(server),
    missing: plan.missing.filter((input) => !hasOwnArgs || isEnvironmentVariable(entry, input)),
    warnings: differs
      ? [`the arguments of ${name} stay unchanged; by default, the new version runs ${ownCommand}`]
      : [],
    command: commandFor(audience, proposal),
    inherited: inheritedText(audience, next, documents.config),
    question: questionOn(
      `Update the MCP server ${quoted(name)} from ${quoted(origin.version)} to ${quoted(entry.version)} of the registry ${registryLabel(entry)}${from} and let svc run this`,
      proposal,
    ),
    digest: digestOf(write, documents, bundle),
    change(written) {
      requireUnchanged(written, documents, name)
      return planWrite(context, write, written).documents
    },
    reverse: (made) => reverseWrite(name, patchServer(name, mergePatchOf(next, server)), made),
  }
}

/** Returns the registry entry of a server. Throws a ToolError (conflict) if the server was not installed from a registry. */
export function updatableOrigin(name: string, section: string, server: Params): ServerOrigin {
  const origin = section === "mcpTemplates" ? undefined : originOf(server)
  if (origin !== undefined) return origin
  throw new ToolError("conflict", `${name} was not installed from a registry`, {
    hint: { tool: "mcp_edit", args: { serverName: name }, does: "changes its version" },
  })
}

// ---

/** The most variables of a remote's address: a registry's text must not lead to a slow regular expression. */
const MAX_VARIABLES = 4

/** Finds the values that were given when a server was installed. `hasArguments`: whether they explain all its arguments. */
function valuesOf(
  server: Params,
  { origin, entry, installed }: Pick<UpdateRequest, "origin" | "entry" | "installed">,
): { readonly values: InputValues; readonly hasArguments: boolean } {
  const values = {
    ...textsOf(server.env),
    ...textsOf(server.headers),
    ...addressVariables(server.url, installed ?? entry),
  }
  const found =
    installed !== undefined && Array.isArray(server.args)
      ? argumentValues(installed, server.args, values, origin.type)
      : undefined
  return { values: { ...values, ...found }, hasArguments: found !== undefined }
}

const textsOf = (section: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(isObject(section) ? section : {}).map(([key, value]) => [key, String(value)]))

/** Finds the values of the variables in a remote's address. */
function addressVariables(url: unknown, entry: RegistryEntry): Record<string, string> {
  const template = remoteOf(entry)?.url
  if (typeof url !== "string" || template === undefined) return {}
  const names = [...template.matchAll(/\{([\w.-]+)\}/g)].map(([, name = ""]) => name)
  if (names.length === 0 || names.length > MAX_VARIABLES) return {}
  const parts = template.split(/\{[\w.-]+\}/).map((part) => RegExp.escape(part))
  const values = new RegExp(`^${parts.join("([^/?&#]+)")}$`).exec(url)?.slice(1) ?? []
  return Object.fromEntries(values.map((value, index) => [names[index] ?? "", value]))
}

/** Returns the old arguments with the old package replaced by the new one, if they name it. */
function keptArguments({ command, args }: Params, plan: Installable, origin: ServerOrigin): Params {
  const [before, after] = [origin.package, plan.package]
  if (before === undefined || after === undefined || command !== plan.server.command) return {}
  if (!Array.isArray(args) || !args.includes(before)) return {}
  return { args: args.map((arg: unknown) => (arg === before ? after : arg)) }
}

/** Returns a section with the values of the plan, of the server and of the caller. */
function mergedValues(
  section: "env" | "headers",
  {
    server,
    planned,
    given,
    bundle,
  }: {
    readonly server: Params
    readonly planned: Params
    readonly given: InputValues
    readonly bundle?: Bundle | undefined
  },
): Params {
  const [existing = {}, fresh = {}] = [server[section], planned[section]].map((one) => (isObject(one) ? one : {}))
  // A value that names a file of the old bundle is dropped with that bundle.
  const kept = Object.fromEntries(
    Object.entries(existing).filter(([, value]) => bundle === undefined || !String(value).includes(String(server.cwd))),
  )
  const isVariable = (name: string): boolean =>
    section === "env" && !name.startsWith("-") && !Object.hasOwn(bundle?.manifest.user_config ?? {}, name)
  const passed = Object.entries(given).flatMap(([name, value]): [string, unknown][] => {
    if (Object.hasOwn(fresh, name)) return [[name, fresh[name]]]
    return isVariable(name) ? [[name, value]] : []
  })
  const whole = { ...fresh, ...kept, ...(bundle === undefined ? {} : fresh), ...Object.fromEntries(passed) }
  return Object.keys(whole).length === 0 ? {} : { [section]: whole }
}

/** Returns the names in `env`, `headers` and `oauth` that a server already has and that are not given again. */
const keptNames = ({ env, headers, oauth }: Params, given: InputValues): ReadonlySet<string> =>
  new Set([env, headers, oauth].flatMap((section) => Object.keys(textsOf(section))).filter((name) => !(name in given)))

const isEnvironmentVariable = ({ packages }: RegistryEntry, { name }: RequestedInput): boolean =>
  packages.some(({ environmentVariables }) => environmentVariables.some((variable) => variable.name === name))
