/** `svc search`: finds tools of the running servers by what they do. */
import type { RankedTool, SearchAnswer } from "../app/catalog-answers.ts"
import { firstSentence, oneLine } from "../catalog/signature.ts"
import { SHELL_ARGS, withShellClient } from "../commands/shell-client.ts"
import { readOptions, type VariadicCommand } from "../lib/command-line.ts"
import { print, table } from "../lib/output.ts"
import { counted } from "../lib/text.ts"

export const search: VariadicCommand = {
  meta: { name: "search", description: "Find tools of the running servers by what they do" },
  rest: "WORDS",
  args: {
    word: { type: "positional", required: true, description: "What the tool should do, in a few words" },
    server: { type: "string", description: "Search this server only", valueHint: "server" },
    limit: { type: "string", description: "Maximum number of tools (default 10)" },
    explain: { type: "boolean", description: "Show the scores, and where the words were found" },
    ...SHELL_ARGS,
  },
  run({ args }) {
    const query = args._.join(" ")
    const option = readOptions(args, {})
    const limit = option.integer("limit", 10, 1, 500)
    const server = option.text("server")
    return withShellClient(args, async (client) => {
      const question = { query, limit, ...(server === undefined ? {} : { server }) }
      const found = (await client.ask("search", question)) as SearchAnswer
      print(args.json === true, found.hits, () =>
        found.hits.length === 0 ? nothingFound(query, found) : hitTable(found.hits, args.explain === true),
      )
      return 0
    })
  },
}

// ---

const DESCRIPTION_TOKENS = 60

const hitTable = (hits: readonly RankedTool[], explain: boolean): string =>
  table(
    // In the form that `svc run` and `svc inspect` accept.
    [{ title: "tool", fit: "whole" }, "score", "found in", "description"],
    hits.map(({ name, server, description, score, matched }) => [
      `${server}/${name}`,
      ...(explain ? [score.toFixed(2), matched.join(", ")] : ["", ""]),
      oneLine(firstSentence(typeof description === "string" ? description : ""), DESCRIPTION_TOKENS),
    ]),
  )

const nothingFound = (query: string, { tools, servers }: SearchAnswer): string =>
  `no tool matches "${query}" among ${counted(tools, "tool")} of ${counted(servers, "server")}; try other words, or search the registries with \`svc mcp search\``
