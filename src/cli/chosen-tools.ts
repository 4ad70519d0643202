/** Reads which tools a person means: `SERVER TOOL …`, or `server/tool`, a qualified name or a unique name for each. */
import { splitName } from "../catalog/name.ts"
import { matchesPattern } from "../catalog/tool-settings.ts"
import { slugOf } from "../config/server-spec.ts"
import { usageError } from "../lib/command-line.ts"
import { didYouMean } from "../lib/nearest.ts"

/** A server's own names for its tools; `*` in a name stands for any characters. */
export type ChosenTools = { readonly server: string; readonly tools: readonly string[] }

/** Returns the names of the tools of a server, hidden ones too. */
type ToolsOf = (server: string) => Promise<readonly string[]>

/**
 * Returns the tools that the words of a command name, all of one server of `servers`. Throws a RequestError (usage) if the words
 * name no tool, a tool of several servers, or tools of different servers.
 */
export async function chosenTools(
  words: readonly string[],
  servers: readonly string[],
  toolsOf: ToolsOf,
): Promise<ChosenTools> {
  const [first = "", ...others] = words
  const named = servers.find((one) => one === first || slugOf(one) === first)
  if (named !== undefined && others.length > 0) return { server: named, tools: await expanded(named, others, toolsOf) }
  const chosen: { readonly server: string; readonly tool: string }[] = []
  for (const word of words) chosen.push(split(word, servers) ?? (await unique(word, servers, toolsOf)))
  const [one] = chosen
  if (one === undefined) throw usageError("name the tools: SERVER TOOL, or server/tool")
  const other = chosen.find(({ server }) => server !== one.server)
  if (other !== undefined) throw usageError(`name the tools of one server at a time: ${one.server} or ${other.server}`)
  const tools = chosen.map(({ tool }) => tool)
  return { server: one.server, tools: await expanded(one.server, tools, toolsOf) }
}

// ---

/** Splits `server/tool` or a qualified name; undefined for any other word. */
function split(word: string, servers: readonly string[]) {
  // The name of a server may have a slash.
  const server = servers.filter((one) => word.startsWith(`${one}/`)).sort((one, other) => other.length - one.length)[0]
  if (server !== undefined) return { server, tool: word.slice(server.length + 1) }
  const parts = splitName(word)
  const qualified = servers.find((one) => slugOf(one) === parts?.slug)
  return parts === undefined || qualified === undefined ? undefined : { server: qualified, tool: parts.name }
}

/** Finds the server that alone has a tool of this name, or tools that match this pattern. */
async function unique(word: string, servers: readonly string[], toolsOf: ToolsOf) {
  const all = await Promise.all(servers.map(async (server) => ({ server, tools: await toolsOf(server) })))
  const having = all.filter(({ tools }) => tools.some((tool) => matchesPattern(tool, word)))
  if (having[0] !== undefined && having.length === 1) return { server: having[0].server, tool: word }
  if (having.length > 1)
    throw usageError(
      `${having.map(({ server }) => server).join(" and ")} have ${word.includes("*") ? "tools that match" : "a tool named"} ${word}: write ${having[0]?.server}/${word}`,
    )
  const isServer = servers.some((one) => one === word || slugOf(one) === word)
  if (isServer) throw usageError(`${word} is a server: name its tools, too, as SERVER TOOL or server/tool`)
  const known = all.flatMap(({ server, tools }) => [server, ...tools, ...tools.map((tool) => `${server}/${tool}`)])
  const hint = didYouMean(word, known) || "; `svc mcp tools list` lists the tools"
  throw usageError(`no server or tool is named ${word}${hint}`)
}

/** Replaces patterns with the names that they match. */
async function expanded(server: string, names: readonly string[], toolsOf: ToolsOf): Promise<readonly string[]> {
  if (!names.some((name) => name.includes("*"))) return names
  const known = await toolsOf(server)
  return names.flatMap((name) => {
    if (!name.includes("*")) return [name]
    const found = known.filter((one) => matchesPattern(one, name))
    if (found.length === 0) throw usageError(`no tool of ${server} matches ${name}`)
    return found
  })
}
