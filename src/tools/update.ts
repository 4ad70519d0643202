/**
 * `mcp_update`: another version of a server that came from a registry. What the person has set stays; the server must
 * connect, otherwise everything is as it was, the old version running.
 */
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import { addVariables } from "../config/dotenv.ts"
import { patchServer, writtenServers } from "../config/edit.ts"
import { isDisabled, slugOf } from "../config/plan.ts"
import { RequestError } from "../lib/errors.ts"
import type { Bundle } from "../registry/bundle.ts"
import { RegistryError } from "../registry/client.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { argumentValues, type RequestedInput, remoteOf } from "../registry/install-plan.ts"
import type { DocumentChange, WrittenDocuments } from "../store/transaction.ts"
import { isObject, type Params } from "../wire/message.ts"
import { applyChange, reloadSchema, resolveServerName, unchanged, validateChange, warningsOf } from "./apply-change.ts"
import { openBundle, planEntry, sayBundle, withBundle } from "./bundle.ts"
import { changedSettings, commandText, confirm, writtenValues } from "./confirm.ts"
import { externalizeSecrets, literals, withPlaceholdersShown } from "./externalize-secrets.ts"
import { acceptApplied, acceptConnected } from "./install.ts"
import {
  missingSchema,
  originFor,
  registryLabel,
  registryStatus,
  showWanted,
  withPlaceholders,
} from "./install-draft.ts"
import { originOf } from "./registry-entries.ts"
import { changeSchema, changesOf } from "./servers.ts"
import { defineTool, SERVER_NAME, ToolError } from "./tool.ts"

export const mcpUpdate = defineTool({
  name: "mcp_update",
  category: "installation",
  title: "Update an MCP server",
  description:
    "Updates a server that was installed from a registry, to its latest or to a given version, and answers what changes. Its own settings stay. The person confirms the new command; if the new version does not connect, the old one is put back. dryRun only shows what would change.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME,
    version: z.string().min(1).default("latest").describe("A version, or latest"),
    env: z.record(z.string(), z.string()).default({}).describe("Values that the new version needs, by name"),
    dryRun: z.boolean().default(false).describe("Only show what would change"),
  }),
  output: z.object({
    serverName: z.string(),
    updated: z.boolean(),
    from: z.string().describe("The version before"),
    to: z.string().describe("The version that was asked for"),
    changes: z.array(changeSchema).describe("What it is started with that changes, secrets hidden"),
    command: z.string(),
    bundle: z.string().optional().describe("The bundle that it is installed from, with its hash"),
    missing: z.array(missingSchema).describe("Values that are needed and were not given"),
    status: z.string().optional(),
    tools: z.number().optional(),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run({ serverName, version, env, dryRun }, context) {
    const { editor, registries } = context
    const before = editor.read()
    const name = resolveServerName(before.config, serverName)
    const { server, section } = writtenServers(before.config).get(name) ?? { server: {}, section: "" }
    const origin = originOf(server)
    if (origin === undefined || section === "mcpTemplates")
      throw new ToolError("conflict", `${name} was not installed from a registry: change its version with mcp_edit`)
    const source = registries.sources().find(({ name }) => name === origin.registry)?.name
    const { value: entry, warnings: said } = await registries.find(origin.name, version, source)
    const warnings = [...said, ...registryStatus(entry)]
    // Anybody may have that name somewhere else.
    if (source === undefined)
      warnings.push(`${origin.registry}, where ${name} came from, is no registry any more: this is ${entry.registry}'s`)
    const to = { serverName: name, from: origin.version, to: entry.version }
    if (entry.version === origin.version && Object.keys(env).length === 0)
      return {
        data: {
          ...to,
          updated: false,
          changes: [],
          command: commandText(server, writtenValues(server)),
          missing: [],
          warnings,
        },
        text: `${name} is at version ${entry.version} already`,
      }
    const bundle = await openBundle(context, entry, origin.type)
    const about = { ...to, ...(bundle === undefined ? {} : { bundle: sayBundle(bundle) }) }
    const { values: given, hidden } = withPlaceholders(entry, env, bundle)
    const was = await registries.find(origin.name, origin.version, source).then(({ value }) => value, noneKnown)
    const old = { ...textsOf(server.env), ...textsOf(server.headers), ...variablesOf(server.url, was ?? entry) }
    const { args: texts } = server
    const args = was !== undefined && Array.isArray(texts) ? argumentValues(was, texts, old, origin.type) : undefined
    const values = bundle === undefined ? { ...old, ...args, ...given } : { ...origin.values, ...given }
    const plan = planEntry(context, name, entry, { values, type: origin.type, bundle })
    if ("reason" in plan)
      throw new ToolError("conflict", `${entry.name} ${entry.version} cannot be run: ${plan.reason}`)
    const next: Params = {
      ...server,
      ...plan.server,
      ...(args === undefined && bundle === undefined ? argsOf(server, plan.server, origin.package, plan.package) : {}),
      ...merge(plan.type === "remote" ? "headers" : "env", server, plan.server, given, bundle),
      installedFrom: originFor(entry, plan, bundle === undefined ? {} : values),
    }
    // What the server had already is the person's, as is what is given now.
    const typed = { ...writtenValues(server), ...literals(env) }
    const shownOf = (one: Params): string => commandText(withPlaceholdersShown(one, { hidden }), typed, plan.secret)
    // Arguments that the person has changed are the person's: what others the new version has is only said.
    const theirs = args === undefined && plan.package !== undefined && bundle === undefined
    if (theirs && !isDeepStrictEqual(next.args, plan.server.args))
      warnings.push(`the arguments of ${name} stay as they are; by itself it would be ${shownOf(plan.server)}`)
    const kept = keptOf(server, given)
    let added = ""
    const change: DocumentChange = (written: WrittenDocuments): WrittenDocuments => {
      unchanged(written, name, server)
      const world = editor.world(written.dotenv)
      const safe = externalizeSecrets(next, slugOf(name).toUpperCase(), { names: plan.secret, hidden, kept }, world)
      const dotenv =
        Object.keys(safe.variables).length === 0 ? written.dotenv : addVariables(written.dotenv, safe.variables, ".env")
      added = dotenv.slice(written.dotenv.length)
      const changed = { config: patchServer(name, difference(server, safe.server))(written.config), dotenv }
      validateChange(context, written, changed)
      return changed
    }
    const command = shownOf(next)
    const missing = plan.missing.filter((one) => !theirs || inEnvironment(entry, one)).map(showWanted)
    if (missing.length > 0 && !dryRun)
      throw new ToolError(
        "invalid_argument",
        `Version ${entry.version} of ${name} needs ${missing.map((one) => one.name).join(", ")}: ask the person, and give the values in env`,
        { ...about, updated: false, changes: [], command, missing, warnings: [] },
      )
    const changes = missing.length > 0 ? [] : changesOf(context, [name, before], [name, change(before)])
    if (dryRun)
      return {
        data: { ...about, updated: false, changes, command, missing, warnings },
        text: `would update ${name} from ${origin.version} to ${entry.version}: ${command}`,
      }
    await confirm(context, ["installs"], {
      what: `Update the MCP server ${name} from ${origin.version} to ${entry.version} of the registry ${registryLabel(entry)}${bundle === undefined ? "" : `, ${sayBundle(bundle)},`} and let svc run this`,
      shown: [command, ...changedSettings(server, next)].join("\n"),
    })
    const enabled = !isDisabled(server)
    const { outcome, reload } = await editor.exclusive(() =>
      withBundle(context, name, bundle, (placed) =>
        applyChange(context, {
          name,
          change: placed(change),
          reverse: ({ config, dotenv }) => ({
            config: writtenServers(config).has(name) ? patchServer(name, difference(next, server))(config) : config,
            dotenv: added === "" ? dotenv : dotenv.replace(added, () => ""),
          }),
          accept: enabled ? acceptConnected(name) : acceptApplied,
        }),
      ),
    )
    const status = enabled ? outcome.kind : "disabled"
    return {
      data: {
        ...about,
        updated: true,
        changes,
        command,
        missing: [],
        status,
        ...(outcome.kind === "connected" ? { tools: outcome.tools } : {}),
        reload,
        warnings: [...warnings, ...warningsOf(name, outcome)],
      },
      text: `updated ${name} from ${origin.version} to ${entry.version}: ${status}`,
    }
  },
})

// ---

const MAX_VARIABLES = 4

const textsOf = (section: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(isObject(section) ? section : {}).map(([key, value]) => [key, String(value)]))

/** The old arguments with the new package in place of the old: what the person has added stays. */
function argsOf(server: Params, planned: Params, before: string | undefined, after: string | undefined): Params {
  const { command, args } = server
  if (before === undefined || after === undefined || command !== planned.command) return {}
  if (!Array.isArray(args) || !args.includes(before)) return {}
  return { args: args.map((arg: unknown) => (arg === before ? after : arg)) }
}

/** A section with the plan's values, those that the server had, and those that were given now. */
function merge(section: "env" | "headers", server: Params, planned: Params, given: Params, bundle?: Bundle): Params {
  const [all = {}, now = {}] = [server[section], planned[section]].map((one) => (isObject(one) ? one : {}))
  const isOption = (name: string): boolean => Object.hasOwn(bundle?.manifest.user_config ?? {}, name)
  // What names a file of the old bundle goes with it.
  const old = Object.fromEntries(
    Object.entries(all).filter(([, value]) => bundle === undefined || !String(value).includes(String(server.cwd))),
  )
  const fresh = Object.entries(given).flatMap(([name, value]) =>
    name in now
      ? [[name, now[name]]]
      : section === "env" && !name.startsWith("-") && !isOption(name)
        ? [[name, value]]
        : [],
  )
  const whole = { ...now, ...old, ...(bundle === undefined ? {} : now), ...Object.fromEntries(fresh) }
  return Object.keys(whole).length === 0 ? {} : { [section]: whole }
}

/** The names in `env`, `headers` and `oauth` that a server has already and that are not given anew. */
const keptOf = ({ env, headers, oauth }: Params, given: Params): ReadonlySet<string> =>
  new Set([env, headers, oauth].flatMap((section) => Object.keys(textsOf(section))).filter((name) => !(name in given)))

const inEnvironment = ({ packages }: RegistryEntry, { name }: RequestedInput): boolean =>
  packages.some(({ environmentVariables }) => environmentVariables.some((variable) => variable.name === name))

/** The version that is installed may be gone from its registry. */
function noneKnown(error: unknown): undefined {
  if (!(error instanceof RegistryError || error instanceof RequestError)) throw error
}

/** What was put into a remote's address when it was installed. */
function variablesOf(url: unknown, entry: RegistryEntry): Record<string, string> {
  const template = remoteOf(entry)?.url
  if (typeof url !== "string" || template === undefined) return {}
  const names = [...template.matchAll(/\{([\w.-]+)\}/g)].map(([, name = ""]) => name)
  // A registry's text must not make a slow expression.
  if (names.length === 0 || names.length > MAX_VARIABLES) return {}
  const parts = template.split(/\{[\w.-]+\}/).map((part) => RegExp.escape(part))
  const values = new RegExp(`^${parts.join("([^/?&#]+)")}$`).exec(url)?.slice(1) ?? []
  return Object.fromEntries(values.map((value, index) => [names[index] ?? "", value]))
}

/** The merge patch that makes one object the other. */
function difference(from: Params, to: Params): Params {
  const patch: Record<string, unknown> = {}
  for (const key of Object.keys(from)) if (to[key] === undefined) patch[key] = null
  for (const [key, value] of Object.entries(to)) {
    const old = from[key]
    if (isObject(old) && isObject(value)) {
      const inner = difference(old, value)
      if (Object.keys(inner).length > 0) patch[key] = inner
    } else if (JSON.stringify(old) !== JSON.stringify(value)) patch[key] = value
  }
  return patch
}
