/** `svc disconnect`: removes svc from the configuration of an MCP client. Also implements `--undo`, for `svc connect` too. */

import type { CommandDef } from "citty"
import { CLIENT_ARGS, configuredOptions } from "../commands/client-commands.ts"
import { openContext } from "../commands/command-context.ts"
import { formatChange } from "../config/document-diff.ts"
import { secretsOf } from "../config/written-values.ts"
import {
  agreed,
  type ClientTarget,
  formatEdits,
  keptCopy,
  lastConnection,
  linkOf,
  ownOrDeadEntries,
  placeOf,
  planUndoOrAdvise,
  readTarget,
  restoredText,
  targetOf,
  undo,
  writeEdits,
} from "../features/connect/client-connection.ts"
import { type ClientEdit, valueIn } from "../features/connect/client-edit.ts"
import { svcAddresses } from "../features/connect/client-endpoint.ts"
import { clientRow } from "../features/connect/clients.ts"
import { listEdits, readForeignServers } from "../features/connect/import.ts"
import { print } from "../lib/output.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { readText } from "../store/files.ts"
import { isAccepted, revokeTokens, tokenIn } from "./client-token.ts"

export const disconnect: CommandDef = {
  meta: { name: "disconnect", description: "Disconnect an MCP client: remove svc from the client's configuration" },
  args: { ...CLIENT_ARGS, client: { ...CLIENT_ARGS.client, required: true } },
  async run({ args }) {
    const context = openContext(args)
    const target = targetOf(args)
    if (args.undo === true) return undoLast(context, target, args)
    const found = readTarget(target)
    const entries = found?.entries ?? []
    const addresses = await svcAddresses(context, configuredOptions)
    const own = (await ownOrDeadEntries(context.paths, target, entries, addresses)).filter(
      ({ name }) => args.name === undefined || name === args.name,
    )
    const names = own.map(({ name }) => name)
    const { title } = clientRow(target.client)
    const place = placeOf(target)
    const about = {
      client: target.client,
      scope: target.scope,
      file: target.file,
      target: linkOf(target)?.target,
      removed: names,
    }
    if (own.length === 0 || found === undefined) {
      print(args.json === true, { ...about, changed: false }, () => `${title} is not connected to svc (${place})`)
      return 0
    }
    // The last first: removing one entry of a list moves those after it.
    const edits: readonly ClientEdit[] = [
      ...own.toReversed().map(({ path }) => ({ path, value: undefined })),
      ...listEdits(found.value, names, false),
    ]
    const tokens = own.flatMap(({ path }) => tokenIn(valueIn(found.value, path)) ?? [])
    const diff = formatEdits(found.text, target.file, edits, secretsOf(found.entries))
    const notes = tokens.length === 0 ? [] : ["svc revokes its token"]
    if (!(await agreed(args, target, diff, notes, `disconnect ${title} from svc?`))) {
      if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
      return 0
    }
    const backup = await writeEdits(context.paths, target, edits, async () => undefined)
    await revokeTokens(context, args, tokens)
    print(args.json === true, { ...about, changed: true, backup }, () =>
      [`disconnected ${title} (${place})`, ...(backup === null ? [] : [`backup: ${backup}`])].join("\n"),
    )
    return 0
  },
}

/** Undoes the last change of a client's file, for `--undo`. Returns the exit code. */
export async function undoLast(
  context: LocalConfiguration,
  target: ClientTarget,
  args: Readonly<Record<string, unknown>>,
): Promise<number> {
  const connection = lastConnection(context.paths, target)
  const plan = planUndoOrAdvise(connection, readText(connection.file))
  const entries = readForeignServers(plan.now, target.file)
  const restored = restoredText(plan)
  const before = restored === undefined ? [] : readForeignServers(restored, target.file)
  const masked = secretsOf([...entries, ...before])
  const diff = formatChange(plan.now, restored ?? "", masked)
  const place = placeOf(target)
  const about = { client: target.client, scope: target.scope, file: target.file, target: linkOf(target)?.target }
  const { title } = clientRow(target.client)
  const notes = plan.before === undefined ? ["svc removes the file, which did not exist before"] : []
  if (!(await agreed(args, target, diff, notes, `undo the last change of ${title}?`))) {
    if (args.json === true) print(true, { ...about, changed: false, diff }, () => "")
    return 0
  }
  await undo(context.paths, [connection], plan)
  const kept = connection.places.flatMap(({ path }) => tokenIn(valueIn(readTarget(target)?.value, path)) ?? [])
  const had = entries.flatMap(({ server }) => tokenIn(server) ?? [])
  await revokeTokens(
    context,
    args,
    had.filter((token) => !kept.includes(token)),
  )
  const isRevoked = kept.some((token) => !isAccepted(context, token))
  const said = [
    ...keptCopy(plan),
    ...(isRevoked ? [`its token was revoked: run \`svc connect ${target.client}\` for a new one`] : []),
  ]
  print(args.json === true, { ...about, changed: true, ...(said.length > 0 && { notes: said }) }, () =>
    [`restored ${place}`, ...said].join("\n"),
  )
  return 0
}
