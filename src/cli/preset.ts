/** `svc preset`: manages presets.json, named views of servers and tools. */
import type { ArgDef, CommandDef } from "citty"
import type { ContextOffer } from "../app/offered-texts.ts"
import { readResultBudget } from "../app/serve-options.ts"
import { selectServers } from "../catalog/selection.ts"
import { NOT_APPROVED, presetIncludes } from "../catalog/view-rules.ts"
import { CONTEXT_ARGS, notRunning, openContext, repeated } from "../commands/command-context.ts"
import { FOLLOW_ARGS, finishChange } from "../commands/follow.ts"
import { parseDocument } from "../config/document.ts"
import type { Edit } from "../config/edit.ts"
import {
  createPreset,
  deletePreset,
  editPreset,
  isEmptyMember,
  type Preset,
  type Presets,
  readPresets,
} from "../config/presets.ts"
import type { PresetConfig } from "../config/schema.ts"
import { readSections } from "../config/sections.ts"
import { slugOf } from "../config/server-spec.ts"
import { TOOL_LISTINGS, type ToolListing } from "../config/tool-listing.ts"
import { systemClock } from "../lib/clock.ts"
import { type CommandGroup, readOptions, usageError } from "../lib/command-line.ts"
import { ConfigError, formatIssue, UnavailableError } from "../lib/errors.ts"
import { compact } from "../lib/json.ts"
import { visible } from "../lib/log.ts"
import { orKnown, unknownNameError } from "../lib/nearest.ts"
import { facts, print, say, table } from "../lib/output.ts"
import { isInteractive, promptYesNo } from "../lib/prompt.ts"
import { counted } from "../lib/text.ts"
import type { PresetReport } from "../report/preset-report.ts"
import { defaultAddress } from "../serve/default-address.ts"
import { type LocalConfiguration, runningStatus } from "../serve/local-configuration.ts"
import { editPresets, readTexts } from "../store/documents.ts"
import { isObject } from "../wire/message.ts"
import { orphanWarnings } from "./preset-clients.ts"
import { tokensOf } from "./tokens.ts"

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

const LIST = (description: string) => ({ type: "string", description: `${description}; may be repeated` }) as const
/** The flags of a preset's members. */
const MEMBERS = {
  filter: FILTER,
  servers: LIST("Servers by name or glob, comma-separated, such as github,web-*"),
  allow: LIST('What to include, as globs over server/tool, such as "github/get_*" (default: everything)'),
  deny: LIST('What to leave out, such as "*/delete_*"; wins over --allow'),
  "read-only": { type: "boolean", description: "Include only tools that are marked read-only" },
  new: {
    type: "string",
    description: "hold: leave new tools out until `svc preset approve` approves them (default show)",
    valueHint: "show|hold",
  },
  limit: LIST("Most calls per minute of a credential and tool, server/tool=number; globs are allowed"),
  name: LIST("New name of a tool, server/tool=name"),
  prefix: {
    type: "string",
    description: "What stands before the names of tools: server (default), none, or a text",
    valueHint: "server|none|text",
  },
  separator: { type: "string", description: "Text between the prefix and the name of a tool (default _svc_)" },
  groups: LIST("Groups of an OAuth issuer whose members get this preset, comma-separated (svc serve --auth-groups)"),
  tools: TOOLS,
  "result-budget": BUDGET,
  description: DESCRIPTION,
} as const

/** Returns the members that the flags of a command state. */
function membersOf(args: Readonly<Record<string, unknown>>, rawArgs: readonly string[]): Partial<PresetConfig> {
  const list = (flag: string): readonly string[] | undefined => {
    const given = repeated(rawArgs, flag)
    return given.length === 0
      ? undefined
      : given.flatMap((one) =>
          one
            .split(",")
            .map((part) => part.trim())
            .filter(Boolean),
        )
  }
  const pairsOf = (flag: string, form: string) =>
    repeated(rawArgs, flag).map((one) => {
      const at = one.lastIndexOf("=")
      if (at <= 0) throw usageError(`--${flag} must be ${form}, not ${one}`)
      return [one.slice(0, at), one.slice(at + 1)] as const
    })
  const pairs = pairsOf("name", "server/tool=name")
  const limits = pairsOf("limit", "server/tool=number").map(([tool, most]) => [tool, Number(most)] as const)
  return compact({
    filter: text(args.filter),
    servers: list("servers"),
    allow: list("allow"),
    deny: list("deny"),
    readOnly: args["read-only"] === undefined ? undefined : args["read-only"] === true,
    new: args.new === undefined ? undefined : readOptions(args, {}).choice("new", ["show", "hold"], "show"),
    limits: limits.length === 0 ? undefined : Object.fromEntries(limits),
    names: pairs.length === 0 ? undefined : Object.fromEntries(pairs),
    prefix: text(args.prefix),
    separator: text(args.separator),
    groups: list("groups"),
    tools: toolsOf(args),
    resultBudget: budgetOf(args),
    description: text(args.description),
  }) as Partial<PresetConfig>
}

const change = (
  name: string,
  about: string,
  args: Record<string, ArgDef>,
  edit: (preset: string, args: Readonly<Record<string, unknown>>, rawArgs: readonly string[]) => Edit,
  done: string,
  warnings: readonly ((context: LocalConfiguration, preset: string) => Promise<readonly string[]>)[] = [],
): CommandDef => ({
  meta: { name, description: about },
  args: { preset: NAME, ...args, ...CONTEXT_ARGS, ...FOLLOW_ARGS },
  async run({ args, rawArgs }) {
    const context = openContext(args)
    const preset = String(args.preset)
    const changed = await editPresets(context.paths, edit(preset, args, rawArgs), systemClock)
    for (const warning of filterWarnings(context, text(args.filter))) say(`warning: ${warning}`)
    const found = await Promise.all(warnings.map((find) => find(context, preset)))
    const about = { result: { preset, changed }, done: `${done} ${preset}`, warnings: found.flat() }
    return finishChange(context, args, about)
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

export const preset: CommandGroup = {
  meta: { name: "preset", description: "Manage presets: named views of your servers and tools" },
  subCommands: {
    create: change(
      "create",
      "Create a preset",
      MEMBERS,
      (name, args, rawArgs) => {
        const given = Object.entries(membersOf(args, rawArgs))
        const members: Partial<PresetConfig> = Object.fromEntries(given.filter(([, value]) => !isEmptyMember(value)))
        if (
          !["filter", "servers", "allow", "deny", "readOnly", "new", "limits", "names", "prefix"].some(
            (key) => key in members,
          )
        )
          throw usageError(
            'say what it selects: --filter "web and not slow", --servers github, --allow "github/get_*", --deny "*/delete_*" or --read-only',
          )
        return createPreset(name, members)
      },
      "created",
    ),
    edit: change(
      "edit",
      "Change a preset; connected clients are updated",
      MEMBERS,
      (name, args, rawArgs) => {
        const members = membersOf(args, rawArgs)
        if (Object.keys(members).length === 0)
          throw usageError("give a flag for each member to change; --help lists them")
        return editPreset(name, members)
      },
      "changed",
    ),
    approve: {
      meta: { name: "approve", description: "Include the tools that are new for a preset with --new hold" },
      args: {
        preset: NAME,
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
        yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
        "dry-run": { type: "boolean", description: "Only show what would be included" },
      },
      run: ({ args }) => approve(openContext(args), String(args.preset), args),
    },
    delete: change("delete", "Delete a preset", {}, (name) => deletePreset(name), "deleted", [orphanWarnings]),
    list: {
      meta: { name: "list", description: "List the presets" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const context = openContext(args)
        const servers = serversOf(context)
        const rows = [...presetsOf(context).presets].map(([name, preset]) => ({
          name,
          filter: preset.text,
          ...(preset.description === undefined ? {} : { description: preset.description }),
          servers: selected(servers, preset),
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
      meta: { name: "show", description: "Show a preset: what it selects, under which names, and what it leaves out" },
      args: {
        preset: { ...NAME, description: "Name of the preset, or several, separated by commas" },
        diff: { type: "string", description: "Show instead how another preset differs", valueHint: "preset" },
        ...CONTEXT_ARGS,
      },
      run: ({ args }) => show(openContext(args), String(args.preset), args),
    },
    why: {
      meta: { name: "why", description: "Show whether a preset includes a tool, and by which rule it does not" },
      args: {
        preset: { ...NAME, description: "Name of the preset, or several, separated by commas" },
        entry: {
          type: "positional",
          required: true,
          description: "server/tool, server/prompt:NAME or server/resource:URI",
          valueHint: "server/tool",
        },
        ...CONTEXT_ARGS,
      },
      run: ({ args }) => why(openContext(args), String(args.preset), String(args.entry), args.json === true),
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
      args: { preset: NAME, ...CONTEXT_ARGS },
      async run({ args }) {
        const context = openContext(args)
        const name = String(args.preset)
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
  aliases: { add: ["create"], ls: ["list"], remove: ["delete"], rm: ["delete"] },
}

// ---

type Tagged = { readonly name: string; readonly tags: readonly string[] }

async function show(
  context: LocalConfiguration,
  names: string,
  args: Readonly<Record<string, unknown>>,
): Promise<number> {
  const presets = names.split(",").map((name) => [name.trim(), find(context, name.trim())] as const)
  const report = await reportOf(context, names)
  const other = text(args.diff)
  if (other !== undefined) {
    find(context, other)
    return showDifference(context, [names, other], [report, await reportOf(context, other)], args.json === true)
  }
  const servers = [...new Set(presets.flatMap(([, preset]) => selected(serversOf(context), preset)))]
  const tokens = report && tokensOf((await context.ask("context", { preset: names }, ANSWER_MS)) as ContextOffer)
  const [[, first] = []] = presets
  const single = presets.length === 1 && first !== undefined ? membersText(first) : []
  const members = presets.map(([name, { filter: _filter, text: filter, approved, ...preset }]) => ({
    name,
    filter,
    ...preset,
    approved: approved && [...approved],
  }))
  const [only] = members
  const whole = presets.length === 1 ? { ...only, servers: undefined } : { presets: members }
  print(
    args.json === true,
    compact({
      ...whole,
      // The globs of the preset are `matches`: `servers` are those that it selects.
      matches: presets.length === 1 ? first?.servers : undefined,
      servers,
      ...(report === undefined ? {} : { entries: report.servers, collisions: report.collisions, tokens }),
    }),
    () =>
      [
        facts([
          ...single,
          ["servers", servers.length === 0 ? "none" : servers.join(", ")],
          ...(tokens === undefined ? [] : [["tokens", tokens.toLocaleString("en")] as const]),
        ]),
        ...(report === undefined ? [] : reportLines(report)),
      ].join("\n"),
  )
  if (report === undefined) say("svc is not running for this configuration: its tools are not known")
  const waiting = report === undefined ? [] : waitingIn(report)
  if (waiting.length > 0)
    say(
      `not approved yet: ${counted(waiting.length, "tool")}; \`svc preset approve ${names}\` shows and includes new tools`,
    )
  for (const name of report?.collisions ?? [])
    say(
      `warning: ${context.paths.presets}: two tools would be named ${name}, so both keep their qualified names; give one a name of its own in "names"`,
    )
  return 0
}

/** Adds the tools that wait for approval to a preset, after showing them. */
async function approve(
  context: LocalConfiguration,
  name: string,
  args: Readonly<Record<string, unknown>>,
): Promise<number> {
  const preset = find(context, name)
  if (preset.new !== "hold")
    throw usageError(`${name} includes new tools at once; \`svc preset edit ${name} --new hold\` changes that`)
  const report = await reportOf(context, name)
  if (report === undefined) throw notRunning(context.paths)
  const waiting = waitingIn(report)
  if (waiting.length === 0) {
    print(args.json === true, { preset: name, approved: [] }, () => `no tool waits for approval in ${name}`)
    return 0
  }
  const text = [`tools that wait for approval in ${name}:`, ...waiting.map((entry) => `  ${visible(entry)}`)].join("\n")
  if (args["dry-run"] === true || !(await isAgreed(args.yes === true, text))) {
    const shown = args["dry-run"] === true ? text : "nothing approved"
    print(args.json === true, { preset: name, approved: [], waiting }, () => shown)
    return 0
  }
  const approved = [...new Set([...(preset.approved ?? []), ...waiting])].sort()
  await editPresets(context.paths, editPreset(name, { approved }), systemClock)
  const done = `approved ${counted(waiting.length, "tool")} in ${name}`
  return finishChange(context, args, { result: { preset: name, approved: waiting }, done })
}

/** Returns the tools that only the missing approval leaves out. */
const waitingIn = ({ servers }: PresetReport): readonly string[] =>
  servers.flatMap(({ left }) => left.flatMap(({ entry, rules }) => (rules?.[0] === NOT_APPROVED ? [entry] : [])))

async function isAgreed(yes: boolean, text: string): Promise<boolean> {
  if (yes) return true
  if (!isInteractive())
    throw usageError("no terminal to ask for confirmation; add --yes, or --dry-run to see the tools")
  say(text)
  return promptYesNo("include them?")
}

const ANSWER_MS = 60_000

/** Returns what presets select in the running svc; undefined if none runs. */
async function reportOf({ ask }: LocalConfiguration, preset: string): Promise<PresetReport | undefined> {
  const answer = await ask("preset", { preset }, ANSWER_MS)
  return isObject(answer) ? (answer as PresetReport) : undefined
}

const membersText = ({ text: filter, servers, allow, deny, readOnly, names, prefix, separator, ...rest }: Preset) =>
  (
    [
      ["filter", filter || undefined],
      ["matches", servers?.join(", ")],
      ["allow", allow?.join(", ")],
      ["deny", deny?.join(", ")],
      ["read-only", readOnly === true ? "yes" : undefined],
      ["new", rest.new],
      [
        "limits",
        rest.limits &&
          Object.entries(rest.limits)
            .map(([tool, most]) => `${tool}=${most}`)
            .join(", "),
      ],
      ["approved", rest.approved && counted(rest.approved.size, "tool")],
      [
        "names",
        names &&
          Object.entries(names)
            .map(([tool, name]) => `${tool}=${name}`)
            .join(", "),
      ],
      ["prefix", prefix],
      ["separator", separator],
      ["description", rest.description],
      ["tools", rest.tools],
      ["results", rest.resultBudget === undefined ? undefined : `${rest.resultBudget} characters`],
    ] as const
  ).flatMap(([label, value]) => (value === undefined ? [] : [[label, value] as const]))

const reportLines = ({ servers }: PresetReport): readonly string[] => {
  const included = servers.flatMap((server) => server.included)
  // Most rules leave out whole servers.
  const left = servers.flatMap(({ server, included: some, left: all }) => {
    const rules = new Set(all.map((one) => one.rules?.join("; ")))
    if (some.length > 0 || all.length < 2 || rules.size !== 1) return all
    return [{ entry: `${server}/* (${all.length} entries)`, rules: [...rules].map(String) }]
  })
  return [
    "",
    included.length === 0
      ? "it includes nothing"
      : table(
          ["included", "name for clients"],
          included.map(({ entry, name = "" }) => [entry, name]),
        ),
    ...(left.length === 0
      ? []
      : [
          "",
          table(
            ["left out", { title: "by", fit: "wrap" }],
            left.map(({ entry, rules = [] }) => [entry, rules.join("; ")]),
          ),
        ]),
  ]
}

function showDifference(
  { paths }: LocalConfiguration,
  [name, other]: readonly [string, string],
  [report, compared]: readonly [PresetReport | undefined, PresetReport | undefined],
  asJson: boolean,
): number {
  if (report === undefined || compared === undefined) throw notRunning(paths)
  const namesIn = ({ servers }: PresetReport) =>
    new Map(servers.flatMap(({ included }) => included.map((one) => [one.entry, one.name ?? ""] as const)))
  const [before, after] = [namesIn(report), namesIn(compared)]
  const rows = [...new Set([...before.keys(), ...after.keys()])]
    .filter((entry) => before.get(entry) !== after.get(entry))
    .map((entry) => ({ entry, [name]: before.get(entry) ?? null, [other]: after.get(entry) ?? null }))
  print(asJson, rows, () =>
    rows.length === 0
      ? "both select the same, under the same names"
      : table(
          ["entry", name, other],
          rows.map((row) => [row.entry ?? "", row[name] ?? "-", row[other] ?? "-"]),
        ),
  )
  return 0
}

async function why(context: LocalConfiguration, names: string, wanted: string, asJson: boolean): Promise<number> {
  for (const name of names.split(",")) find(context, name.trim())
  const report = await reportOf(context, names)
  if (report === undefined) throw notRunning(context.paths)
  const all = report.servers.flatMap(({ included, left }) => [...included, ...left])
  const found = all.find(({ entry, name }) => entry === wanted || name === wanted)
  if (found === undefined)
    throw unknownNameError(
      "entry",
      wanted,
      all.map(({ entry }) => entry),
    )
  const { entry, name, rules = [] } = found
  print(
    asJson,
    compact({ entry, included: name !== undefined, name, rules: name === undefined ? rules : undefined }),
    () => (name === undefined ? `${entry} is left out: ${rules.join("; ")}` : `${entry} is included as ${name}`),
  )
  return 0
}

/** Returns the valid servers and templates with their tags. */
function serversOf(context: LocalConfiguration): readonly Tagged[] {
  const { servers, templates } = readSections(context.document())
  const names = new Set(templates.map(({ name }) => name))
  return [...servers.filter(({ name }) => !names.has(name)), ...templates].map(({ name, config }) => ({
    name,
    tags: config?.tags ?? [],
  }))
}

/** Returns the names of the servers of which a preset may include something. */
const selected = (servers: readonly Tagged[], preset: Preset): readonly string[] =>
  servers.filter(({ name, tags }) => presetIncludes(preset, { name, slug: slugOf(name) }, tags)).map(({ name }) => name)

function matching(servers: readonly Tagged[], filter: string): readonly string[] {
  const { includes } = selectServers([{ filter }], new Map())
  return servers.filter(({ tags }) => includes(tags)).map(({ name }) => name)
}

/** Returns a message for each tag in a filter that no server has. */
function unknownTags(servers: readonly Tagged[], filter: string): readonly string[] {
  const known = new Set(servers.flatMap(({ tags }) => tags))
  const unknown = [...selectServers([{ filter }], new Map()).tags].filter((tag) => !known.has(tag))
  return unknown.map((tag) => `no server has the tag ${tag}${orKnown("tag", tag, known)}`)
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
