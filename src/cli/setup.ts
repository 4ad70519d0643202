/**
 * `svc setup`: imports the servers of the user's clients, connects the clients to svc, and starts svc.
 *
 *  1. It shows every server that svc would run and every change of a file, and asks once.
 *  2. It writes mcp.json first, then the files of clients: no server is lost if svc is killed in between.
 *  3. Clients start svc when they need it (`svc proxy --start`), so that they work after a reboot; `--http` writes its address.
 *  4. `--undo` takes everything back (features/connect/setup-record.ts).
 */
import { existsSync } from "node:fs"
import { configuredOptions } from "../commands/client-commands.ts"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { aboutServer, followChange, outcomeOf } from "../commands/follow.ts"
import { startSvc } from "../commands/start-svc.ts"
import { parseDotenv } from "../config/dotenv.ts"
import { agreedText, placeOf, targetOf } from "../features/connect/client-connection.ts"
import { svcAddresses } from "../features/connect/client-endpoint.ts"
import { CLIENTS, clientRow } from "../features/connect/clients.ts"
import { findServers, type ImportRow } from "../features/connect/found-servers.ts"
import { addSetup, readSetups, type SetupUndo, undoSetup } from "../features/connect/setup-record.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions, usageError, type VariadicCommand } from "../lib/command-line.ts"
import { codesOf, messageOf, RequestError, UnavailableError } from "../lib/errors.ts"
import { homeDirectory } from "../lib/home-directory.ts"
import { visible } from "../lib/log.ts"
import { print, say, stdoutLook } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"
import { shortPath } from "../lib/text.ts"
import { instancePid } from "../serve/control-socket.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { createMissing } from "../store/documents.ts"
import { changeDocuments, readDocuments } from "../store/transaction.ts"
import { askInputs, describeServer, type ReadyServer, withServers } from "./config-import.ts"
import { makeConnection, type PreparedConnection, prepareConnection, presentClients } from "./connect.ts"

export const setup: VariadicCommand = {
  rest: "CLIENT",
  meta: {
    name: "setup",
    description: "Import the servers of your clients, connect the clients to svc, and start svc",
  },
  args: {
    client: {
      type: "positional",
      required: false,
      description: `Clients to connect: ${CLIENTS.join(", ")} (default: all that have a configuration file)`,
      valueHint: CLIENTS.join("|"),
    },
    ...CONTEXT_ARGS,
    project: {
      type: "boolean",
      description:
        "Also import the servers of projects (.mcp.json, .vscode/mcp.json …); svc then offers them in every project",
    },
    http: { type: "boolean", description: "Connect clients to the address of svc, instead of letting them start it" },
    timeout: { type: "string", description: "How long to wait for the servers to connect (default 30s)" },
    undo: { type: "boolean", description: "Take back all that `svc setup` has changed" },
    yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
    "dry-run": { type: "boolean", description: "Only show what would change" },
  },
  async run({ args }) {
    const context = openContext(args, "allowed")
    if (args.undo === true) return undoAll(context, args)
    return setUp(context, args)
  },
}

// ---

type Args = Readonly<Record<string, unknown>>

async function setUp(context: LocalConfiguration, args: Args): Promise<number> {
  const { paths } = context
  const named = [args._].flat().map(String)
  const found = await findServers(
    context,
    undefined,
    args.project === true,
    await svcAddresses(context, configuredOptions),
  )
  const rows = found.filter(({ outcome }) => outcome.kind !== "skipped" || outcome.because !== "itself")
  // A client may keep its servers only in a file beside the one that svc writes.
  const owners = rows.flatMap(({ from: { client, scope } }) =>
    client !== undefined && scope === "user" ? [client] : [],
  )
  const present = [...new Set([...presentClients(), ...owners])]
  const targets = (named.length > 0 ? named : present).map((client) => targetOf({ client }))
  const added = rows.filter(({ outcome }) => outcome.kind === "added")
  const before = readDocuments(paths)
  // The same texts as after the questions for values: these add only variables.
  const planned = withServers(context, added.map(readyOf), before)
  const failed: string[] = []
  const connections: PreparedConnection[] = []
  for (const target of targets)
    try {
      connections.push(
        await prepareConnection(
          context,
          target,
          { stdio: args.http !== true, replace: true, json: args.json },
          planned,
        ),
      )
    } catch (error) {
      // A file that cannot be read must not keep the other clients apart.
      failed.push(`${clientRow(target.client).title}: ${messageOf(error)}`)
    }
  if (connections.some(({ planned: { wantsToken } }) => wantsToken))
    throw usageError("svc requires a token from clients at its address: leave out --http")
  const changed = connections.filter(({ diff }) => diff !== "")
  const text = describe(rows, connections, failed, paths.file)
  if (added.length === 0 && changed.length === 0) {
    if (args.json !== true)
      print(false, undefined, () =>
        [text, targets.length === 0 ? wrap(NO_CLIENT, stdoutLook()) : "nothing to set up"].filter(Boolean).join("\n\n"),
      )
    else print(true, report(rows, connections, [], [], failed), () => "")
    return failed.length === 0 ? 0 : UNAVAILABLE_EXIT
  }
  if (!(await agreedText(args, text, "set up svc like this?"))) {
    if (args.json === true) print(true, report(rows, connections, [], [], failed), () => "")
    return 0
  }
  const ready = await askInputs(context, added)
  const after = withServers(context, ready, before)
  const known = parseDotenv(before.dotenv, paths.dotenv)
  const variables = Object.keys(parseDotenv(after.dotenv, paths.dotenv)).filter((name) => !Object.hasOwn(known, name))
  const names = ready.map(({ name }) => name)
  const time = new Date(systemClock.now()).toISOString()
  addSetup(
    paths,
    changed.map(({ target }) => target.file),
    after,
    { servers: names, variables },
    time,
  )
  if (names.length > 0) {
    await createMissing(paths, systemClock)
    const change = await changeDocuments(paths, (written) => withServers(context, ready, written), systemClock)
    change.keep()
  }
  const connected: PreparedConnection[] = []
  for (const one of changed)
    try {
      await makeConnection(context, one, args)
      connected.push(one)
    } catch (error) {
      failed.push(`${clientRow(one.target.client).title}: ${messageOf(error)}`)
    }
  return finish(context, args, { rows, connections, connected, names, failed })
}

const NO_CLIENT =
  "found no configuration file of a client; name a client, as in `svc setup cursor`, or add servers with `svc mcp add`"

/** A server before its questions are asked. */
const readyOf = ({ name, server, isTemplate }: ImportRow): ReadyServer => ({ name, server, isTemplate, variables: {} })

type Done = {
  readonly rows: readonly ImportRow[]
  readonly connections: readonly PreparedConnection[]
  readonly connected: readonly PreparedConnection[]
  readonly names: readonly string[]
  readonly failed: readonly string[]
}

/** Starts svc if it does not run, waits for the new servers, and says what works. Returns the exit code. */
async function finish(context: LocalConfiguration, args: Args, done: Done): Promise<number> {
  const { rows, connections, connected, names, failed } = done
  const problems = [...failed]
  const timeout = readOptions({ timeout: args.timeout }, {}).text("timeout") ?? "30s"
  let outcomes: readonly ReturnType<typeof outcomeOf>[] = []
  try {
    if ((await instancePid(context.paths)) === undefined) {
      say("starting svc")
      await startSvc(context.paths, configWords(args), "background")
    }
    const followed = await followChange(context, { timeout }, "the files are written", names)
    outcomes = followed === undefined ? [] : names.map((name) => outcomeOf(name, followed.status))
  } catch (error) {
    problems.push(messageOf(error))
  }
  const bad = outcomes.filter(({ state }) => !WORKING.has(state))
  print(args.json === true, report(rows, connections, connected, outcomes, problems), () =>
    [
      ...connected.map(({ target, planned: { name, replaced, kept } }) => {
        const names = (entries: readonly { readonly name: string }[]) =>
          entries.map((one) => visible(one.name || '""')).join(", ")
        const gone = replaced.length === 0 ? "" : `, in place of ${names(replaced)}`
        const left = [...kept, ...besideOf(target, rows)]
        const stays = left.length === 0 ? "" : `; the client still starts ${names(left)} itself`
        return `connected  ${clientRow(target.client).title}: ${name} in ${placeOf(target)}${gone}${stays}`
      }),
      ...outcomes.filter((one) => !bad.includes(one)).map((one) => `works      ${aboutServer(one)}`),
      ...bad.map((one) => `problem    ${aboutServer(one)}`),
      ...problems.map((problem) => `problem    ${problem}`),
      ...[...new Set(connected.flatMap(({ target }) => clientRow(target.client).next ?? []))].map(
        (next) => `next       ${next}`,
      ),
      ...(args.http === true && connected.length > 0
        ? ["next       `svc service install` starts svc with the machine: these clients do not start it"]
        : []),
      "undo       svc setup --undo",
    ]
      .map((line) => wrap(line, stdoutLook()))
      .join("\n"),
  )
  return problems.length + bad.length === 0 ? 0 : UNAVAILABLE_EXIT
}

/** Returns the servers in other files of a client, which svc does not write. */
function besideOf({ client, file }: PreparedConnection["target"], rows: readonly ImportRow[]): readonly ImportRow[] {
  const beside = ({ from }: ImportRow) => from.client === client && from.scope === "user" && from.file !== file
  return rows.filter((row) => beside(row) && row.outcome.kind !== "skipped" && row.server.disabled !== true)
}

/** The states of a server that needs nothing. */
const WORKING: ReadonlySet<string> = new Set(["connected", "asleep", "disabled", "not in use"])
const UNAVAILABLE_EXIT = codesOf(new UnavailableError("")).exit

const configWords = (args: Args): readonly string[] =>
  (["config", "config-dir"] as const).flatMap((flag) => {
    const value = args[flag]
    return typeof value === "string" ? [`--${flag}`, value] : []
  })

/** Returns all that the setup would do, in words. */
function describe(
  rows: readonly ImportRow[],
  connections: readonly PreparedConnection[],
  failed: readonly string[],
  file: string,
): string {
  const of = (kind: ImportRow["outcome"]["kind"]) => rows.filter(({ outcome }) => outcome.kind === kind)
  const [added, same, skipped] = [of("added"), of("same"), of("skipped")]
  const from = ({ from }: ImportRow) => from.client ?? shortPath(from.file, homeDirectory())
  const why = ({ name, outcome }: ImportRow) => `  ${visible(name)}: ${"why" in outcome ? visible(outcome.why) : ""}`
  const groups = [
    added.length === 0
      ? []
      : [
          `new servers, which svc will run (${visible(file)}):`,
          ...added.flatMap((row) => describeServer(row).split("\n")).map((line) => `  ${line}`),
        ],
    same.length === 0
      ? []
      : ["the same as another server:", ...same.map((row) => `${why(row)}, from ${visible(from(row))}`)],
    skipped.length === 0 ? [] : ["not imported:", ...skipped.map((row) => `${why(row)}, from ${visible(from(row))}`)],
    ...connections.map(({ target, diff }) =>
      diff === ""
        ? [`${clientRow(target.client).title} is already connected (${placeOf(target)})`]
        : [
            `${clientRow(target.client).title} connects to svc (${placeOf(target)}):`,
            ...diff.split("\n").map((line) => `  ${visible(line)}`),
          ],
    ),
    failed.length === 0 ? [] : ["not connected:", ...failed.map((one) => `  ${visible(one)}`)],
  ]
  return groups
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.join("\n"))
    .join("\n\n")
}

/** Returns the outcome for scripts. */
const report = (
  rows: readonly ImportRow[],
  connections: readonly PreparedConnection[],
  connected: readonly PreparedConnection[],
  servers: readonly ReturnType<typeof outcomeOf>[],
  problems: readonly string[],
) => ({
  servers: rows.map(({ name, from, outcome }) => {
    const { text: _, ...now } = servers.find((one) => one.name === name) ?? { text: "" }
    return {
      name,
      file: from.file,
      found: outcome.kind === "added" ? "new" : outcome.kind,
      ...(outcome.kind === "added" ? {} : { why: outcome.why }),
      ...now,
    }
  }),
  clients: connections.map((one) => ({
    client: one.target.client,
    file: one.target.file,
    changed: connected.includes(one),
    connected: connected.includes(one) || one.diff === "",
    diff: one.diff,
  })),
  problems,
})

/** Takes all setups back, the newest first. */
async function undoAll(context: LocalConfiguration, args: Args): Promise<number> {
  const { paths } = context
  const records = readSetups(paths).toReversed()
  if (records.length === 0) throw new RequestError("not_found", "`svc setup` has changed nothing that it could undo")
  const text = [
    "svc gives these files their former contents, and removes the servers that were imported:",
    ...[...new Set(records.flatMap(({ clients }) => [...clients, paths.file]))].map((file) => `  ${visible(file)}`),
  ].join("\n")
  if (!(await agreedText(args, text, "undo the setup?"))) return 0
  const results: SetupUndo[] = []
  for (const record of records) {
    const result = await undoSetup(paths, record, systemClock)
    results.push(result)
    // The change below would need what this one could not take back.
    if (result.problems.length > 0) break
  }
  const isStopped = !existsSync(paths.file) && (await context.ask("stop").catch(() => undefined)) !== undefined
  const all = <K extends keyof (typeof results)[number]>(key: K) => results.flatMap((result) => result[key])
  const problems = all("problems")
  const [restored, removed, kept, notes] = [all("restored"), all("removed"), all("kept"), all("notes")]
  const result = { restored, removed, kept, notes, problems }
  print(args.json === true, result, () =>
    [
      ...result.restored.map((file) => `restored ${shortPath(file, homeDirectory())}`),
      ...(result.removed.length === 0 ? [] : [`removed ${result.removed.join(", ")} from ${paths.file}`]),
      ...result.kept.map((name) => `kept ${name}, which was edited since`),
      ...notes,
      ...problems.map((problem) => `not undone: ${problem}`),
      ...(problems.length === 0 ? [] : ["the imported servers stay in mcp.json until this is solved"]),
      ...(isStopped ? ["stopped svc, which has no servers any more"] : []),
    ].join("\n"),
  )
  return problems.length === 0 ? 0 : UNAVAILABLE_EXIT
}
