/**
 * Nothing that a person has not agreed to is run: the exact command is put to them where the client can ask, and where it
 * cannot, the operator decides once with `--confirm-installs`. choice: Internal tools.
 */
import { printable } from "../lib/log.ts"
import { isObject, type Params } from "../wire/message.ts"
import { type Context, ToolError } from "./tool.ts"

/** Throws a ToolError where nobody agrees. `server` is what would be written. */
export async function confirm({ person, trusted, mask }: Context, what: string, server: Params): Promise<void> {
  const command = mask(printable(commandOf(server)))
  if (person !== undefined) {
    if (await person.agrees(`${what}?\n\n${command}`, "Yes, run exactly this")) return
    throw new ToolError("declined", "The person declined: nothing was changed", { command })
  }
  if (trusted) return
  throw new ToolError(
    "confirmation_required",
    "A person must agree to this first, and this client cannot ask one (it does not support elicitation). " +
      "Show the command to the person and let them run `svc mcp install` or `svc mcp edit` in a terminal, or let them start svc with --confirm-installs off.",
    { command },
  )
}

/** What a server runs or connects to, in one line; of its environment the names alone. */
export function commandOf({ command, args, url, env, cwd }: Params): string {
  const parts = Array.isArray(args) ? args.map((part) => quoted(String(part))) : []
  const names = isObject(env) ? Object.keys(env) : Array.isArray(env) ? env.map((one) => String(one).split("=")[0]) : []
  const what = typeof url === "string" ? `connect to ${url}` : [quoted(String(command)), ...parts].join(" ")
  return `${what}${typeof cwd === "string" ? ` in ${cwd}` : ""}${names.length === 0 ? "" : ` with ${names.join(", ")} set`}`
}

// ---

const quoted = (part: string): string => (/^[\w@%+=:,./~$-]+$/.test(part) ? part : JSON.stringify(part))
