/**
 * `mcp_install`, a transaction: what is missing is said, a person agrees to the exact command, both files are written, and
 * the server must connect and list. Otherwise everything is as it was before.
 */
import * as z from "zod"
import type { ReloadResult } from "../agent/reload.ts"
import { addVariables } from "../config/dotenv.ts"
import { addServer, removeServer, writtenServers } from "../config/edit.ts"
import { isDisabled, nameProblem, slugOf } from "../config/plan.ts"
import type { DocumentChange } from "../store/transaction.ts"
import type { Params } from "../wire/message.ts"
import { applyChange, type ConnectOutcome, reloadSchema, validateChange, warningsOf } from "./apply-change.ts"
import { openBundle, withBundle } from "./bundle.ts"
import { commandText, confirm, settingsOf, writtenValues } from "./confirm.ts"
import { type ExternalizedServer, externalizeSecrets, literals, withPlaceholdersShown } from "./externalize-secrets.ts"
import { draftCustom, draftEntry, type InstallDraft, merged, missingSchema, showWanted } from "./install-draft.ts"
import { defineTool, SERVER_NAME, type ToolContext, ToolError } from "./tool.ts"

export const mcpInstall = defineTool({
  name: "mcp_install",
  category: "installation",
  title: "Install an MCP server",
  description:
    "Installs a server and starts it. From a registry: give serverName as mcp_search shows it (and version). From a source of your own: give serverName and one of command (with args), url, or package (npm's; pypi: or oci: before the name for others). Values it needs go into env; secrets among them are kept in .env. What is missing is answered as `missing`: ask the person for it. The person confirms the exact command. If the server does not connect, everything is rolled back and the answer says why. dryRun shows what would be done.",
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: true },
  input: z.object({
    serverName: SERVER_NAME.describe("The name in the registry, or the name that the server is to have"),
    version: z.string().min(1).optional().describe("A version, or latest (default)"),
    registryId: z.string().min(1).optional().describe("The name in the registry, where serverName is to be another"),
    package: z.string().min(1).optional().describe("A package: npm's name, pypi:name or oci:image"),
    command: z.string().min(1).optional().describe("A command to run"),
    args: z.array(z.string()).optional().describe("Arguments of the command or package"),
    url: z.string().min(1).optional().describe("The address of a remote server"),
    env: z.record(z.string(), z.string()).optional().describe("Values that the server needs, by name"),
    tags: z.array(z.string()).optional().describe("Tags for the server"),
    config: z
      .record(z.string(), z.unknown())
      .optional()
      .describe("More server settings as in mcp.json, for example requestTimeout, headers, restartOnExit"),
    enabled: z.boolean().default(true).describe("false only writes it, disabled"),
    dryRun: z.boolean().default(false).describe("Only show what would be done"),
  }),
  output: z.object({
    serverName: z.string().describe("Its name from now on"),
    installed: z.boolean(),
    command: z.string().describe("What is run or connected to"),
    source: z.string(),
    version: z.string().optional(),
    missing: z.array(missingSchema).describe("Values that are needed and were not given"),
    optional: z.array(missingSchema).describe("Values that may be given too"),
    variables: z.array(z.string()).describe("Variables that refer to secrets in .env"),
    status: z.string().optional(),
    tools: z.number().optional(),
    reload: reloadSchema.optional(),
    warnings: z.array(z.string()),
  }),
  async run(args, context) {
    const { config } = context.editor.read()
    const draft = await draftOf(args, context)
    const { name } = draft
    const problem = nameProblem(name)
    if (problem !== undefined) throw new ToolError("invalid_argument", `No server can be named "${name}": ${problem}`)
    if (writtenServers(config).has(name))
      throw new ToolError("conflict", `There is a server named ${name} already; mcp_update or mcp_edit change it`)
    const server = merged(draft.server, {
      ...args.config,
      ...(args.tags === undefined ? {} : { tags: args.tags }),
      ...(args.enabled ? {} : { disabled: true }),
    })
    const enabled = !isDisabled(server)
    const shown = withPlaceholdersShown(server, draft.secrets)
    // Secrets of the caller's are hidden, and nothing that an entry or a bundle has fixed.
    const typed = { ...literals(args.env ?? {}), ...writtenValues(args.config ?? {}) }
    const command = commandText(shown, typed, draft.secrets.names)
    const about = {
      serverName: name,
      command,
      source: draft.source,
      missing: draft.missing.map(showWanted),
      optional: draft.optional.map(showWanted),
      ...(draft.version === undefined ? {} : { version: draft.version }),
    }
    const addition = additionOf(context, { ...draft, server })
    if (draft.missing.length > 0 && !args.dryRun)
      throw new ToolError("invalid_argument", sayMissing(draft), { ...about, installed: false })
    const planned = draft.missing.length > 0 ? undefined : addition.preview()
    const variables = [...(planned?.references ?? [])]
    const warnings = [...draft.warnings]
    if (args.dryRun)
      return {
        data: { ...about, installed: false, variables, warnings },
        text: `would install ${name}: ${command}${draft.missing.length === 0 ? "" : `; ${sayMissing(draft)}`}`,
      }
    await confirm(context, ["installs"], {
      what: `Install the MCP server ${name} from ${draft.source} and let svc run this`,
      shown: [command, ...settingsOf(shown)].join("\n"),
    })
    const { outcome, reload } = await context.editor.exclusive(() =>
      withBundle(context, name, draft.bundle, (placed) =>
        applyChange(context, {
          name,
          change: placed(addition.change),
          reverse: addition.reverse,
          accept: enabled ? acceptConnected(name) : acceptApplied,
        }),
      ),
    )
    return {
      data: {
        ...about,
        installed: true,
        variables,
        status: enabled ? outcome.kind : "disabled",
        ...(outcome.kind === "connected" ? { tools: outcome.tools } : {}),
        reload,
        warnings: [...warnings, ...warningsOf(name, outcome)],
      },
      text: `installed ${name}: ${enabled ? outcome.kind : "disabled"}${outcome.kind === "connected" ? `, ${outcome.tools} tools` : ""}`,
    }
  },
})

/** The server must be connected and have listed, or wait for a person's authorization. */
export const acceptConnected =
  (name: string) =>
  (outcome: ConnectOutcome, reloaded: ReloadResult): string | undefined => {
    const broken = acceptApplied(outcome, reloaded)
    if (broken !== undefined) return broken
    if (outcome.kind === "error") return outcome.reason
    if (outcome.kind !== "absent") return undefined
    const issues = reloaded.issues.filter(({ server }) => server === name)
    return issues.length > 0 ? issues.map(({ message }) => message).join("; ") : "it was taken out of the file"
  }

/** The file as it is now must be what runs. */
export const acceptApplied = (_outcome: ConnectOutcome, { applied, issues }: ReloadResult): string | undefined =>
  applied === undefined
    ? `the configuration was refused: ${issues.map(({ message }) => message).join("; ")}`
    : undefined

// ---

type Args = Parameters<typeof draftCustom>[1] & {
  readonly serverName: string
  readonly registryId?: string | undefined
}

async function draftOf(args: Args, context: ToolContext): Promise<InstallDraft> {
  if ([args.command, args.url, args.package].some((one) => one !== undefined)) return draftCustom(args.serverName, args)
  if (args.args !== undefined)
    throw new ToolError("invalid_argument", "args go with a command or a package; a registry's entry has its own")
  const { value, warnings } = await context.registries.find(
    args.registryId ?? args.serverName,
    args.version ?? "latest",
  )
  const bundle = await openBundle(context, value)
  const given = args.registryId === undefined ? undefined : args.serverName
  const draft = draftEntry(context, value, given, { env: args.env, bundle })
  return { ...draft, warnings: [...warnings, ...draft.warnings] }
}

type Addition = { readonly change: DocumentChange; readonly reverse: DocumentChange; preview(): ExternalizedServer }

/** A server and its variables, put into both documents and taken out again. */
function additionOf(
  context: ToolContext,
  { name, server, secrets }: InstallDraft & { readonly server: Params },
): Addition {
  const { editor } = context
  const prefix = slugOf(name).toUpperCase()
  let added = ""
  const sheltered = (dotenv: string) => externalizeSecrets(server, prefix, secrets, editor.world(dotenv))
  const change: DocumentChange = (written) => {
    const { server: safe, variables } = sheltered(written.dotenv)
    const dotenv =
      Object.keys(variables).length === 0 ? written.dotenv : addVariables(written.dotenv, variables, ".env")
    added = dotenv.slice(written.dotenv.length)
    const changed = { config: addServer(name, safe)(written.config), dotenv }
    validateChange(context, written, changed)
    return changed
  }
  return {
    change,
    preview() {
      const written = editor.read()
      change(written)
      return sheltered(written.dotenv)
    },
    reverse: ({ config, dotenv }) => ({
      config: writtenServers(config).has(name) ? removeServer(name)(config) : config,
      dotenv: added === "" ? dotenv : dotenv.replace(added, () => ""),
    }),
  }
}

function sayMissing({ name, missing }: InstallDraft): string {
  const wanted = missing.map(({ name: variable, description, choices = [] }) => {
    const about = [description ?? [], choices.length === 0 ? [] : `one of ${choices.join(", ")}`].flat()
    return about.length === 0 ? variable : `${variable} (${about.join("; ")})`
  })
  return `${name} needs ${wanted.join(", ")}: ask the person, and give the values in env`
}
