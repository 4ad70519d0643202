/** `svc auth token`: the bearer tokens of clients, kept as hashes in tokens.json. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, type CommandContext, openContext, TAG_ARGS, tagsOf } from "../app/command-context.ts"
import { FOLLOW_ARGS, followChange } from "../app/follow.ts"
import { tokensFile } from "../app/inbound-auth.ts"
import { print, say, table } from "../app/output.ts"
import { TOOL_LISTINGS } from "../config/presets.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { type ClientToken, createToken, pickToken, printTokens, readTokens } from "../store/client-tokens.ts"
import { editTokens } from "../store/documents.ts"

export const token: CommandDef = {
  meta: { name: "token", description: "Manage the tokens of clients" },
  subCommands: {
    create: {
      meta: { name: "create", description: "Create a token and print it, once" },
      args: {
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
        name: { type: "string", description: "Name of the token, such as its user's" },
        ...TAG_ARGS,
        tag: {
          type: "string",
          description: "Limit to servers with one of these tags, comma-separated (default: all servers)",
        },
        tools: {
          type: "string",
          description:
            "Tools that its holder is listed: all, or search for svc's search tools alone (default: as --tools)",
          valueHint: "all|search",
        },
        expires: { type: "string", description: "Lifetime, such as 30d (default: does not expire)" },
      },
      async run({ args, rawArgs }) {
        const context = openContext(args)
        const option = readOptions(args, {})
        const now = systemClock.now()
        const named = tagsOf(rawArgs)
        const tags = named.length === 0 ? undefined : named
        const tools = option.text("tools") === undefined ? undefined : option.choice("tools", TOOL_LISTINGS, "all")
        const expires = option.text("expires") === undefined ? undefined : now + option.duration("expires", 0)
        const { token: made, text } = createToken(option.text("name") ?? "", { tags, tools, expires, now })
        await changeTokens(context, (tokens) => new Map([...tokens, [made.id, made]]))
        const { hash: _, ...shown } = made
        // Printed first: a token that is not shown is lost.
        print(args.json === true, { ...shown, token: text }, () => text)
        if (args.json !== true) say(`token ${made.id}: store it now, it is not shown again`)
        await followChange(context, args, `token ${made.id} is created`)
        return 0
      },
    },
    list: {
      meta: { name: "list", description: "List the tokens, without their values" },
      args: CONTEXT_ARGS,
      run({ args }) {
        const rows = [...tokensOf(openContext(args)).values()].map(({ hash: _, ...rest }) => rest)
        const now = systemClock.now()
        const until = (expires: string | undefined) => {
          if (expires === undefined) return "never"
          return Date.parse(expires) <= now ? `${expires} (expired)` : expires
        }
        print(args.json === true, rows, () =>
          rows.length === 0
            ? "no tokens yet; create one with `svc auth token create`"
            : table(
                ["id", "name", "tags", "created", "expires"],
                rows.map((row) => [
                  row.id,
                  row.name,
                  row.tags?.join(", ") ?? "all servers",
                  row.created,
                  until(row.expires),
                ]),
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
        await changeTokens(context, (tokens) => new Map([...tokens].filter(([id]) => id !== wanted.id)))
        await followChange(context, args, done)
        print(args.json === true, { revoked: wanted.id }, () => done)
        return 0
      },
    },
  } as Record<string, CommandDef>,
}

/** Returns the tokens by id. Throws an UnavailableError if their file is malformed or readable by others. */
export const tokensOf = ({ paths }: CommandContext) => readTokens(tokensFile(paths), process.platform)

/** Changes the tokens under the lock; the file stays readable by its owner alone. */
export async function changeTokens(
  { paths }: CommandContext,
  edit: (tokens: ReadonlyMap<string, ClientToken>) => ReadonlyMap<string, ClientToken>,
): Promise<void> {
  const file = tokensFile(paths)
  await editTokens(paths, file, () => printTokens(edit(readTokens(file, process.platform)).values()), systemClock)
}
