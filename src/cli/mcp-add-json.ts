/** `svc mcp add-json`: adds servers from the JSON of svc or of another client. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, SCOPE_ARGS, SCOPE_NOTE } from "../commands/command-context.ts"
import { addNewServer } from "../commands/edit-servers.ts"
import { START_ARGS } from "../commands/follow.ts"
import type { Edit } from "../config/edit.ts"
import { placed, readForeignServers } from "../features/connect/import.ts"
import { inBraces } from "../features/connect/pasted.ts"
import { usageError } from "../lib/command-line.ts"
import { RequestError } from "../lib/errors.ts"
import { visible } from "../lib/log.ts"
import { say } from "../lib/output.ts"
import type { Params } from "../wire/message.ts"
import { FORCE, hintFor, parseObject, typed, YES } from "./mcp-add.ts"
import { addServers } from "./mcp-tools.ts"

export const addJson: CommandDef = {
  meta: {
    name: "add-json",
    description: "Add servers from the JSON of svc or another client: `svc mcp add-json NAME JSON`",
  },
  args: {
    name: { type: "positional", required: true, description: "Name of the server; left out if the JSON has names" },
    text: { type: "positional", required: false, description: 'A server, or {"mcpServers": {…}}; - reads stdin' },
    ...CONTEXT_ARGS,
    ...SCOPE_ARGS,
    force: FORCE,
    yes: YES,
    ...START_ARGS,
  },
  async run({ args }) {
    const isNamed = typeof args.text === "string"
    const [name, given] = [isNamed ? String(args.name) : undefined, String(isNamed ? args.text : args.name)]
    const servers = serversIn(parseObject(inBraces(given === "-" ? await Bun.stdin.text() : given), "the JSON"), name)
    for (const { name, notes } of servers)
      for (const note of notes) say(`warning: ${visible(`${name}: ${note}${hintFor(note)}`)}`)
    const entries = servers.map(({ name, server: written }) => {
      const { server, isTemplate, note } = placed(written, undefined, () => false)
      if (note !== undefined) say(`note: ${visible(name)} ${note}`)
      return { name, server: typed(server), isTemplate }
    })
    const all: Edit = (text) =>
      entries.reduce(
        (changed, { name, server, isTemplate }) => addNewServer(name, server, args.force === true, isTemplate)(changed),
        text,
      )
    if (args.scope !== undefined) say(SCOPE_NOTE)
    return addServers(args, all, entries)
  },
}

// ---

type AddedServer = { readonly name: string; readonly server: Params; readonly notes: readonly string[] }

/** Returns the servers in a value: one server, under `name` or its own name, or all servers of a configuration. */
function serversIn(value: Params, name: string | undefined): readonly [AddedServer, ...AddedServer[]] {
  const { name: own, ...server } = value
  const isServer = ["command", "url", "httpUrl", "serverUrl"].some((key) => key in value)
  const single = name ?? own
  if (isServer && typeof single !== "string")
    throw usageError("the JSON has no name for the server: svc mcp add-json NAME JSON")
  const whole = isServer ? { mcpServers: { [String(single)]: server } } : value
  const [first, ...others] = readForeignServers(JSON.stringify(whole), "the JSON")
  if (first === undefined) throw usageError("the JSON has no server: it needs a command, a url or mcpServers")
  if (name !== undefined && others.length > 0)
    throw usageError("the JSON has several servers, each with its own name; leave out NAME")
  const all: readonly [typeof first, ...(typeof first)[]] = [{ ...first, name: name ?? first.name }, ...others]
  for (const { name, problem } of all)
    if (problem !== undefined) throw new RequestError("invalid_params", `${name}: ${problem}`)
  return all
}
