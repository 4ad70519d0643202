/**
 * `mcp_install`, a transaction: reports missing values, asks a person to agree to the exact command, writes both documents, and
 * requires that the server connects and lists. Otherwise restores the previous state.
 */
import { isDeepStrictEqual } from "node:util"
import * as z from "zod"
import { addServer, removeServer, writtenServers } from "../../config/edit.ts"
import { literals, maskPlaceholders } from "../../config/externalize-secrets.ts"
import { isDisabled, nameProblem } from "../../config/plan.ts"
import { withAliases } from "../../config/sections.ts"
import { quoted, settingsOf } from "../../config/server-text.ts"
import { writtenValues } from "../../config/written-values.ts"
import { schemaProblem } from "../../lib/schema-problem.ts"
import { counted } from "../../lib/text.ts"
import type { Params } from "../../wire/message.ts"
import type { RequestedInput } from "../registry/install-plan.ts"
import { applyInstallation, reloadSchema } from "./apply-change.ts"
import { openBundle } from "./bundle.ts"
import { confirm } from "./consent.ts"
import { audienceOf, commandFor, inheritedText, type Proposal, questionOn } from "./consent-text.ts"
import { findServer } from "./find-endpoint.ts"
import {
  type CustomServer,
  draftCustom,
  draftEntry,
  draftFound,
  type InstallDraft,
  missingSchema,
} from "./install-draft.ts"
import {
  digestFor,
  digestOf,
  planWrite,
  requireAgreed,
  requireUnchanged,
  reverseWrite,
  type ServerWrite,
  withMergePatch,
} from "./plan-change.ts"
import { statusWord } from "./servers.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"

export const mcpInstall = defineTool({
  name: "mcp_install",
  category: "installation",
  title: "Install an MCP server",
  description:
    "Installs a server and starts it. From a registry: give serverName as mcp_search shows it, and optionally version. From another source: give serverName and one of command (with args), url, or package (an npm package, pypi:NAME or oci:IMAGE), or a config with the command or the url; svc then asks no registry. Put the values that the server needs into env; svc stores secrets among them in .env. The result lists missing values as `missing`: ask the person for them. A person must approve the exact command. If the server does not connect, svc undoes the installation and the error says why. With dryRun, nothing changes.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME.describe("The name in the registry, or a new name for the server"),
    version: z.string().min(1).optional().describe("A version, or latest (default)"),
    registryId: z.string().min(1).optional().describe("The name in the registry, if serverName is a different name"),
    package: z.string().min(1).optional().describe("A package: an npm name, pypi:NAME or oci:IMAGE"),
    command: z.string().min(1).optional().describe("A command to run"),
    args: z.array(z.string()).optional().describe("Arguments of the command or package"),
    url: z
      .string()
      .min(1)
      .optional()
      .describe("The address of a remote server, or of a host or page whose server card names it"),
    env: z.record(z.string(), z.string()).optional().describe("Values that the server needs, by name"),
    tags: z.array(z.string()).optional().describe("Tags for the server"),
    config: z
      .record(z.string(), z.unknown())
      .optional()
      .describe(
        "Server settings as in mcp.json, for example requestTimeout, headers, restartOnExit; with a command (and args) or a url, the whole server",
      ),
    enabled: z.boolean().default(true).describe("false writes the server as disabled and does not start it"),
    confirmZeroTools: z
      .boolean()
      .default(false)
      .describe("true lets disabledTools in config hide every tool that the server offers"),
    dryRun: z.boolean().default(false).describe("Only show what would change"),
  }),
  output: z.object({
    serverName: z.string().describe("The name of the installed server"),
    installed: z.boolean(),
    command: z.string().describe("The command that svc runs, or the URL that it connects to"),
    inherited: z.string().optional().describe("What serverDefaults adds to the command's environment or headers"),
    source: z.string(),
    version: z.string().optional(),
    missing: z.array(missingSchema).describe("Required values that were not given"),
    optional: z.array(missingSchema).describe("Optional values that were not given"),
    variables: z.array(z.string()).describe("Variables that refer to secrets in .env"),
    status: z.string().optional().describe("The server's status, as mcp_status shows it"),
    state: z.string().optional().describe("The status in more detail, as mcp_status shows it"),
    tools: z.number().optional(),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run(args, context) {
    const plan = planInstallation(context, args, await draftOf(args, context))
    const { documents, draft, about, write, proposal, references, warnings, digest } = plan
    const { name } = draft
    if (draft.missing.length > 0 && !args.dryRun)
      throw new ToolError("invalid_argument", missingText(draft), { data: { ...about, installed: false } })
    if (args.dryRun) {
      const needs = draft.missing.length === 0 ? "" : `; ${missingText(draft)}`
      return {
        data: { ...about, installed: false, variables: references, warnings },
        text: `would install ${name}: ${about.command}${needs}`,
      }
    }
    requireAgreed(context, digest)
    await confirm(
      context,
      ["installs"],
      questionOn(`Install the MCP server ${quoted(name)} from ${draft.source} and let svc run this`, proposal),
    )
    const { status, state, tools, reload, ...result } = await applyInstallation(context, {
      name,
      bundle: draft.bundle,
      enabled: !isDisabled(write.server),
      mayOfferNothing: args.confirmZeroTools || args.config?.disabledTools === undefined,
      change(written) {
        requireUnchanged(written, documents, name)
        return planWrite(context, write, written).documents
      },
      reverse: (made) => reverseWrite(name, removeServer(name), made),
    })
    return {
      data: {
        ...about,
        installed: true,
        variables: references,
        status,
        state,
        tools,
        reload,
        warnings: [...warnings, ...result.warnings],
      },
      text: `installed ${name}: ${statusWord({ status, state })}${tools === undefined ? "" : `, ${counted(tools, "tool")}`}`,
    }
  },
})

// ---

type InstallRequest = CustomServer & {
  readonly serverName: string
  readonly registryId?: string | undefined
  readonly tags?: readonly string[] | undefined
  readonly config?: Params | undefined
  readonly enabled: boolean
}

async function draftOf(request: InstallRequest, context: ToolContext): Promise<InstallDraft> {
  const args = { ...request, ...sourceOf(request) }
  if ([args.command, args.url, args.package].some((one) => one !== undefined)) {
    if (args.registryId === undefined) return draftOwn(args, context)
    throw new ToolError(
      "invalid_argument",
      "registryId names a registry entry, which has its own command or url: leave out registryId, or command, url and package",
    )
  }
  if (args.args !== undefined)
    throw new ToolError(
      "invalid_argument",
      "args apply only to a command or a package; a registry entry has its own arguments",
    )
  const { value, warnings } = await context.registries.findOrKnown(
    args.registryId ?? args.serverName,
    args.version ?? "latest",
  )
  const draft = draftEntry(context, value, {
    name: args.registryId === undefined ? undefined : args.serverName,
    env: args.env,
    bundle: await openBundle(context, value),
  })
  return { ...draft, warnings: [...warnings, ...draft.warnings] }
}

/** Drafts a server that no registry describes. An address may lead to a host or page with a card that names the endpoint. */
async function draftOwn(args: InstallRequest, context: ToolContext): Promise<InstallDraft> {
  const { url, command, package: spec, serverName } = args
  if (url === undefined || command !== undefined || spec !== undefined) return draftCustom(serverName, args)
  const found = await findServer(url, context.fetch)
  return typeof found === "string"
    ? draftCustom(serverName, { ...args, url: found })
    : draftFound(serverName, found, args.env)
}

/** The settings of `config` that determine what a server runs or where it connects. */
const SOURCE = z.object({
  command: z.string().min(1).nullish(),
  args: z.array(z.string()).nullish(),
  url: z.string().min(1).nullish(),
})

/** Returns the source from a request's arguments and its `config`. Throws a ToolError if they contradict each other. */
function sourceOf(request: InstallRequest): Pick<CustomServer, "command" | "args" | "url"> {
  const parsed = SOURCE.safeParse(withAliases(request.config ?? {}), { error: schemaProblem })
  if (!parsed.success)
    throw new ToolError(
      "invalid_argument",
      parsed.error.issues.map(({ path, message }) => `"config.${path.join(".")}": ${message}`).join("; "),
    )
  const { command, args, url } = parsed.data
  const either = <T>(key: string, beside: T | undefined, inside: T | null | undefined): T | undefined => {
    if (beside === undefined || (inside ?? undefined) === undefined) return beside ?? inside ?? undefined
    if (isDeepStrictEqual(beside, inside)) return beside
    throw new ToolError("invalid_argument", `${key} and config.${key} differ; give only one of them`)
  }
  return {
    command: either("command", request.command, command),
    args: either("args", request.args, args),
    url: either("url", request.url, url),
  }
}

/**
 * Returns the settings of `config` without the source, which is in the draft. None of them changes what a registry's entry
 * runs.
 */
function settingsIn({ config = {} }: InstallRequest): Params {
  const { command: _command, args: _args, url: _url, serverUrl: _serverUrl, httpUrl: _httpUrl, ...settings } = config
  return settings
}

/**
 * Plans the change, the question to the person, and the members that all answers share. Throws a ToolError if it is not
 * valid.
 */
function planInstallation(context: ToolContext, request: InstallRequest, draft: InstallDraft) {
  const documents = context.editor.read()
  const { name, secrets } = draft
  const problem = nameProblem(name)
  if (problem !== undefined) throw new ToolError("invalid_argument", `No server can be named "${name}": ${problem}`)
  if (writtenServers(documents.config).has(name))
    throw new ToolError("conflict", `There is already a server named ${name}`, {
      hint: { tool: "mcp_edit", args: { serverName: name }, does: "changes it" },
    })
  const server = withMergePatch(draft.server, {
    ...settingsIn(request),
    ...(request.tags === undefined ? {} : { tags: request.tags }),
    ...(request.enabled ? {} : { disabled: true }),
  })
  const write: ServerWrite = { name, server, secrets, edit: (safe) => addServer(name, safe) }
  const proposal: Proposal = {
    server,
    secrets,
    given: { ...literals(request.env ?? {}), ...writtenValues(request.config ?? {}) },
    known: sourceOf(request),
    config: documents.config,
    lines: settingsOf(maskPlaceholders(server, secrets)),
  }
  const digest = digestOf(write, documents, draft.bundle)
  const about = {
    serverName: name,
    digest: digestFor(context, digest),
    command: commandFor(audienceOf(context), proposal),
    inherited: inheritedText(audienceOf(context), server, documents.config),
    source: draft.source,
    version: draft.version,
    missing: draft.missing,
    optional: draft.optional,
  }
  const planned = draft.missing.length > 0 ? undefined : planWrite(context, write, documents)
  const { references = [], warnings = [] } = planned ?? {}
  return { documents, draft, about, write, proposal, references, warnings: [...draft.warnings, ...warnings], digest }
}

const missingText = ({ name, missing }: InstallDraft): string =>
  `${name} needs ${missing.map(inputText).join(", ")}; ask the person, and give the values in env`

/** Returns the name of an input, its purpose, and its choices. */
function inputText({ name, description, choices = [] }: RequestedInput): string {
  const about = [description ?? "", choices.length === 0 ? "" : `one of ${choices.join(", ")}`].filter(Boolean)
  return about.length === 0 ? name : `${name} (${about.join("; ")})`
}
