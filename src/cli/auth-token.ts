/** `svc auth token`: manages the bearer tokens of clients, stored as hashes in tokens.json. */
import type { CommandDef } from "citty"
import { readResultBudget } from "../app/serve-options.ts"
import { presetsOf } from "../catalog/selection.ts"
import { CONTEXT_ARGS, openContext, TAG_ARGS, tagsOf } from "../commands/command-context.ts"
import { FOLLOW_ARGS, followChange } from "../commands/follow.ts"
import { parseDocument } from "../config/document.ts"
import { readPresets } from "../config/presets.ts"
import { readSections } from "../config/sections.ts"
import { TOOL_LISTINGS } from "../config/tool-listing.ts"
import { isLoopback } from "../lib/address.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { didYouMean } from "../lib/nearest.ts"
import { print, say, table } from "../lib/output.ts"
import { defaultAddress } from "../serve/default-address.ts"
import { type LocalConfiguration, statusIfAnswered } from "../serve/local-configuration.ts"
import {
  type ClientToken,
  createToken,
  describeToken,
  pickToken,
  printTokens,
  readTokens,
  replaceTokens,
} from "../store/client-tokens.ts"
import { editTokens, readTexts } from "../store/documents.ts"
import { tokensFile } from "../store/paths.ts"

export const token: CommandDef = {
  meta: { name: "token", description: "Manage the tokens of clients" },
  subCommands: {
    create: {
      meta: { name: "create", description: "Create a token and print it once" },
      args: {
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
        user: { type: "positional", required: false, description: "Name of the token, such as the name of its user" },
        name: { type: "string", description: "The same as USER" },
        ...TAG_ARGS,
        tag: {
          type: "string",
          description: "Limit to servers with one of these tags, comma-separated (default: all servers)",
        },
        preset: {
          type: "string",
          description: "Bind to this preset, whatever the address says; several are separated by commas",
          valueHint: "preset",
        },
        "metrics-only": { type: "boolean", description: "Limit to reading /metrics" },
        tools: {
          type: "string",
          description:
            "Tools that svc lists to the token's holder: all, or search (only svc's search tools); default: as `svc serve --tools`",
          valueHint: "all|search",
        },
        "result-budget": {
          type: "string",
          description:
            'Largest result that the token\'s holder gets in full, in characters or as "4000 tokens"; default: as `svc serve --result-budget`',
        },
        expires: { type: "string", description: "Lifetime, such as 30d (default: does not expire)" },
        replace: { type: "boolean", description: "Revoke the tokens that have this name" },
      },
      async run({ args, rawArgs }) {
        const context = openContext(args)
        const option = readOptions(args, {})
        const now = systemClock.now()
        const given = tagsOf(rawArgs)
        const tags = given.length === 0 ? undefined : given
        const metricsOnly = args["metrics-only"] === true || undefined
        if (metricsOnly && tags !== undefined)
          throw usageError("a token for the metrics gives access to no server: leave out --tags or --metrics-only")
        const presets = presetsFor(context, option.text("preset"))
        if (metricsOnly && presets !== undefined)
          throw usageError("a token for the metrics gives access to no tool: leave out --preset or --metrics-only")
        const tools = option.text("tools") === undefined ? undefined : option.choice("tools", TOOL_LISTINGS, "all")
        const budget = option.text("result-budget")
        const resultBudget = budget === undefined ? undefined : readResultBudget(budget)
        const expires = option.text("expires") === undefined ? undefined : now + option.duration("expires", 0)
        const named = option.text("name")
        if (named !== undefined && args.user !== undefined)
          throw usageError("give the token one name: as USER, or with --name")
        const name = named ?? option.text("user") ?? ""
        const { token: made, text } = createToken(name, {
          tags,
          presets,
          metricsOnly,
          tools,
          resultBudget,
          expires,
          now,
        })
        await changeTokens(context, (tokens) => {
          const named = new Set(name === "" ? [] : [...tokens.values()].filter((token) => token.name === name))
          const [other] = named
          if (other !== undefined && args.replace !== true)
            throw new RequestError(
              "conflict",
              `${describeToken(other)} already exists; choose another name, or revoke the old token with --replace`,
            )
          return new Map([...[...tokens].filter(([, token]) => !named.has(token)), [made.id, made]])
        })
        const { hash: _, ...shown } = made
        const warnings = warningsAbout(context, made)
        // Printed before any step that may fail: a token that is not shown is lost.
        print(args.json === true, { ...shown, token: text, warnings }, () => text)
        if (args.json !== true) {
          say(`${describeToken(made)}: store it now; svc does not show it again`)
          for (const warning of warnings) say(`warning: ${warning}`)
        }
        // The token exists and has been printed: an error in its place would lose it for a program.
        const followed = await followChange(context, args, `created token ${made.id}`).catch((error: unknown) => {
          if (!(error instanceof UnavailableError)) throw error
          say(`warning: ${error.message}`)
          return undefined
        })
        if (args.replace === true) warnIfAway(followed?.away)
        if (args.json !== true && !metricsOnly) say(await snippet(context))
        return 0
      },
    },
    list: {
      meta: { name: "list", description: "List the tokens, without their values" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const rows = [...tokensOf(openContext(args)).values()].map(({ hash: _, changed: __, ...rest }) => rest)
        const now = systemClock.now()
        const until = (expires: string | undefined) => {
          if (expires === undefined) return "never"
          return Date.parse(expires) <= now ? `${expires} (expired)` : expires
        }
        print(args.json === true, rows, () =>
          rows.length === 0
            ? "no tokens yet; create one with `svc auth token create`"
            : table(
                ["id", "name", "tags or preset", "created", "expires"],
                rows.map((row) => [row.id, row.name, rightsOf(row), row.created, until(row.expires)]),
              ),
        )
        return 0
      },
    },
    revoke: {
      meta: { name: "revoke", description: "Revoke a token" },
      args: {
        token: { type: "positional", required: true, description: "ID or name of the token", valueHint: "token" },
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
      },
      async run({ args }) {
        const context = openContext(args)
        const wanted = pickToken(tokensOf(context), String(args.token))
        const done = `revoked ${wanted.id} ${wanted.name}`.trim()
        await changeTokens(context, (tokens) => new Map([...tokens].filter(([id]) => id !== wanted.id))).catch(
          (cause: unknown) => {
            throw new UnavailableError(
              `${describeToken(wanted)} still gives access, because it could not be revoked: ${messageOf(cause)}; correct that and try again, or end all access with \`svc stop\``,
              { cause },
            )
          },
        )
        const followed = await followChange(context, args, done)
        print(args.json === true, { revoked: wanted.id }, () => done)
        warnIfAway(followed?.away)
        return 0
      },
    },
  } as Record<string, CommandDef>,
}

/** Returns the tokens by id. Throws an UnavailableError if their file is malformed or readable by others. */
export const tokensOf = ({ paths }: LocalConfiguration) => readTokens(tokensFile(paths), process.platform).tokens

/** Returns what a token gives access to, for a table. */
function rightsOf({ metricsOnly, tags, presets }: Omit<ClientToken, "hash">): string {
  if (metricsOnly === true) return "none: only /metrics"
  const bound = presets === undefined ? [] : [`preset ${presets.join(", ")}`]
  return (
    [...(tags === undefined || (bound.length > 0 && tags.length === 0) ? [] : [tags.join(", ")]), ...bound].join(
      "; ",
    ) || "all servers"
  )
}

/** Returns the presets that a flag names. Throws a RequestError (usage) for an unknown one. */
function presetsFor({ paths }: LocalConfiguration, names: string | undefined): readonly string[] | undefined {
  if (names === undefined) return undefined
  const { presets } = readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets))
  presetsOf(names, presets)
  return names.split(",").map((name) => name.trim())
}

/** Warns about a token that may not be intended: without a name, without limits, or for tags that no server has. */
function warningsAbout(
  context: LocalConfiguration,
  { name, tags: written, presets, metricsOnly, expires }: ClientToken,
): readonly string[] {
  const known = knownTags(context)
  const tags = presets !== undefined && written?.length === 0 ? undefined : written
  const unknown = (tags ?? []).filter((tag) => known !== undefined && !known.includes(tag))
  const bounds = [
    ...(tags === undefined && presets === undefined ? ["--tags"] : []),
    ...(expires === undefined ? ["--expires"] : []),
  ]
  const granted = metricsOnly === true ? "the metrics" : "its servers"
  const whole = presets === undefined ? "all servers and the management tools" : `preset ${presets.join(", ")}`
  const scope = tags === undefined ? whole : granted
  const time = expires === undefined ? ", without an expiry" : ""
  return [
    ...unknown.map(
      (tag) =>
        `no server has the tag ${tag}${didYouMean(tag, known ?? [])}; the token grants access to servers that get it later`,
    ),
    ...(bounds.length === 0
      ? []
      : [`the token grants access to ${scope}${time}; ${bounds.join(" and ")} would limit it`]),
    ...(name === "" ? ["the token has no name; with a name, the audit log would show whose token it is"] : []),
  ]
}

/** Returns the tags of all servers and templates; undefined if the configuration cannot be read. */
function knownTags(context: LocalConfiguration): readonly string[] | undefined {
  try {
    const { servers, templates } = readSections(context.document())
    return [...servers, ...templates].flatMap(({ config }) => config?.tags ?? [])
  } catch {
    return undefined
  }
}

/** Says so if other replicas of the running svc do not know yet that a token is revoked. */
function warnIfAway(away: string | undefined): void {
  if (away !== undefined)
    say(`warning: ${away} cannot be reached: until it is back, other replicas may accept the revoked token`)
}

/** Returns how a client uses a token. Does not contain it: stderr often ends up in logs. */
async function snippet(context: LocalConfiguration): Promise<string> {
  const url = (await statusIfAnswered(context))?.endpoint ?? `${defaultAddress()}mcp`
  const { hostname } = new URL(url)
  const isLocal = isLoopback(hostname)
  return [
    "use it, in place of TOKEN:",
    `  claude mcp add -t http svc ${url} --header "Authorization: Bearer TOKEN"`,
    `  { "mcpServers": { "svc": { "url": "${url}", "headers": { "Authorization": "Bearer TOKEN" } } } }`,
    ...(isLocal ? [`on other machines, replace ${hostname} with the address of this machine`] : []),
  ].join("\n")
}

/** Changes the tokens under the lock; those that are removed are revoked. The file stays readable by its owner alone. */
export async function changeTokens(
  { paths }: LocalConfiguration,
  edit: (tokens: ReadonlyMap<string, ClientToken>) => ReadonlyMap<string, ClientToken>,
): Promise<void> {
  const file = tokensFile(paths)
  const change = () => {
    const before = readTokens(file, process.platform)
    return printTokens(replaceTokens(before, edit(before.tokens), systemClock.now()))
  }
  await editTokens(paths, file, change, systemClock)
}
