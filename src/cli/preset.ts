/** `svc preset`: manages named selections of servers in presets.json. */
import type { CommandDef } from "citty"
import { readResultBudget } from "../app/serve-options.ts"
import { selectServers } from "../catalog/selection.ts"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { FOLLOW_ARGS, finishChange } from "../commands/follow.ts"
import { parseDocument } from "../config/document.ts"
import type { Edit } from "../config/edit.ts"
import { createPreset, deletePreset, editPreset, type Presets, readPresets } from "../config/presets.ts"
import { readSections } from "../config/sections.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { ConfigError, formatIssue, UnavailableError } from "../lib/errors.ts"
import { didYouMean, unknownNameError } from "../lib/nearest.ts"
import { print, say, table } from "../lib/output.ts"
import { defaultAddress } from "../serve/default-address.ts"
import { type LocalConfiguration, runningStatus } from "../serve/local-configuration.ts"
import { editPresets, readTexts } from "../store/documents.ts"

const NAME = { type: "positional", required: true, description: "Name of the preset", valueHint: "preset" } as const
const FILTER = {
  type: "string",
  description: 'Expression over tags, such as "web and not slow"',
  valueHint: "expression",
} as const
const TOOLS = {
  type: "string",
  description: "Tools to list: all, or search (only svc's search tools)",
  valueHint: "all|search",
} as const
const BUDGET = {
  type: "string",
  description: 'Largest tool result that clients get in full, in characters or as "4000 tokens" (0: no limit)',
} as const
const DESCRIPTION = { type: "string", description: "Description of the preset" } as const

const change = (
  name: string,
  about: string,
  args: Record<string, typeof FILTER | typeof DESCRIPTION | typeof TOOLS | typeof BUDGET>,
  edit: (preset: string, args: Readonly<Record<string, unknown>>) => Edit,
  done: string,
): CommandDef => ({
  meta: { name, description: about },
  args: { name: NAME, ...args, ...CONTEXT_ARGS, ...FOLLOW_ARGS },
  async run({ args }) {
    const context = openContext(args)
    const preset = String(args.name)
    const changed = await editPresets(context.paths, edit(preset, args), systemClock)
    for (const warning of filterWarnings(context, text(args.filter))) say(`warning: ${warning}`)
    return finishChange(context, args, { result: { preset, changed }, done: `${done} ${preset}` })
  },
})

const toolsOf = (args: Readonly<Record<string, unknown>>): ToolListing | undefined =>
  args.tools === undefined ? undefined : readOptions(args, {}).choice("tools", TOOL_LISTINGS, "all")

const budgetOf = (args: Readonly<Record<string, unknown>>): string | undefined => {
  const written = text(args["result-budget"])
  if (written !== undefined) readResultBudget(written)
  return written
}

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

export const preset: CommandDef = {
  meta: { name: "preset", description: "Manage presets: named selections of servers" },
  subCommands: {
    create: change(
      "create",
      "Create a preset",
      { filter: FILTER, tools: TOOLS, "result-budget": BUDGET, description: DESCRIPTION },
      (name, { filter, description, ...args }) => {
        const tools = toolsOf(args)
        const resultBudget = budgetOf(args)
        if (text(filter) === undefined)
          throw usageError('--filter is missing; give an expression over tags, such as --filter "web and not slow"')
        return createPreset(name, {
          filter: String(filter),
          ...(description ? { description: String(description) } : {}),
          ...(tools === undefined ? {} : { tools }),
          ...(resultBudget === undefined ? {} : { resultBudget }),
        })
      },
      "created",
    ),
    edit: change(
      "edit",
      "Change a preset; connected clients are updated",
      { filter: FILTER, tools: TOOLS, "result-budget": BUDGET, description: DESCRIPTION },
      (name, { filter, description, ...args }) => {
        const tools = toolsOf(args)
        const resultBudget = budgetOf(args)
        if ([text(filter), text(description), tools, resultBudget].every((value) => value === undefined))
          throw usageError("give --filter, --tools, --result-budget or --description")
        return editPreset(name, { filter: text(filter), description: text(description), tools, resultBudget })
      },
      "changed",
    ),
    delete: change("delete", "Delete a preset", {}, (name) => deletePreset(name), "deleted"),
    list: {
      meta: { name: "list", description: "List the presets" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const context = openContext(args)
        const servers = serversOf(context)
        const rows = [...presetsOf(context).presets].map(([name, { text: filter, description }]) => ({
          name,
          filter,
          ...(description === undefined ? {} : { description }),
          servers: matching(servers, filter),
        }))
        print(args.json === true, rows, () =>
          rows.length === 0
            ? "no presets yet; create one with `svc preset create`"
            : table(
                ["name", "filter", "servers", "description"],
                rows.map((row) => [row.name, row.filter, row.servers.join(", "), row.description ?? ""]),
              ),
        )
        return 0
      },
    },
    show: {
      meta: { name: "show", description: "Show a preset and the servers it selects" },
      args: { name: NAME, ...CONTEXT_ARGS },
      run({ args }) {
        const context = openContext(args)
        const { text: filter, description, tools, alwaysVisible, resultBudget } = find(context, String(args.name))
        const servers = matching(serversOf(context), filter)
        print(
          args.json === true,
          { name: args.name, filter, description, tools, alwaysVisible, resultBudget, servers },
          () =>
            [
              `filter       ${filter}`,
              ...(description === undefined ? [] : [`description  ${description}`]),
              ...(tools === undefined ? [] : [`tools        ${tools}`]),
              ...(resultBudget === undefined ? [] : [`results      ${resultBudget} characters`]),
              `servers      ${servers.length === 0 ? "none" : servers.join(", ")}`,
            ].join("\n"),
        )
        return 0
      },
    },
    test: {
      meta: { name: "test", description: "Show which servers an expression matches" },
      args: { filter: { type: "positional", required: true, description: FILTER.description }, ...CONTEXT_ARGS },
      run({ args }) {
        const all = serversOf(openContext(args))
        const filter = String(args.filter)
        const names = matching(all, filter)
        for (const problem of unknownTags(all, filter)) say(problem)
        print(args.json === true, { filter, servers: names }, () =>
          names.length === 0 ? "no server matches" : names.join("\n"),
        )
        return 0
      },
    },
    url: {
      meta: { name: "url", description: "Print the URL of a preset for clients" },
      args: { name: NAME, ...CONTEXT_ARGS },
      async run({ args }) {
        const context = openContext(args)
        const name = String(args.name)
        find(context, name)
        const status = await runningStatus(context)
        const url = new URL(status?.endpoint ?? `${defaultAddress()}mcp`)
        url.searchParams.set("preset", name)
        if (status === undefined) say("svc is not running for this configuration; showing the default address")
        print(args.json === true, { url: url.href }, () => url.href)
        return 0
      },
    },
  } as Record<string, CommandDef>,
}

// ---

type Tagged = { readonly name: string; readonly tags: readonly string[] }

/** Returns the valid servers and templates with their tags. */
function serversOf(context: LocalConfiguration): readonly Tagged[] {
  const { servers, templates } = readSections(context.document())
  const names = new Set(templates.map(({ name }) => name))
  return [...servers.filter(({ name }) => !names.has(name)), ...templates].map(({ name, config }) => ({
    name,
    tags: config?.tags ?? [],
  }))
}

function matching(servers: readonly Tagged[], filter: string): readonly string[] {
  const { includes } = selectServers([{ filter }], new Map())
  return servers.filter(({ tags }) => includes(tags)).map(({ name }) => name)
}

/** Returns a message for each tag in a filter that no server has. */
function unknownTags(servers: readonly Tagged[], filter: string): readonly string[] {
  const known = new Set(servers.flatMap(({ tags }) => tags))
  const unknown = [...selectServers([{ filter }], new Map()).tags].filter((tag) => !known.has(tag))
  return unknown.map((tag) => `no server has the tag ${tag}${didYouMean(tag, known)}`)
}

/** Returns why a filter selects less than intended; nothing if the configuration cannot be read. */
function filterWarnings(context: LocalConfiguration, filter: string | undefined): readonly string[] {
  if (filter === undefined) return []
  try {
    const servers = serversOf(context)
    const none = matching(servers, filter).length === 0 ? ["no server matches the filter"] : []
    return [...unknownTags(servers, filter), ...none]
  } catch (error) {
    if (error instanceof ConfigError || error instanceof UnavailableError) return []
    throw error
  }
}

function presetsOf({ paths }: LocalConfiguration): Presets {
  const presets = readPresets(parseDocument(readTexts(paths).presets() ?? "{}", paths.presets))
  for (const issue of presets.issues) say(formatIssue(issue))
  return presets
}

function find(context: LocalConfiguration, name: string) {
  const { presets } = presetsOf(context)
  const found = presets.get(name)
  if (found !== undefined) return found
  throw unknownNameError("preset", name, presets.keys())
}
