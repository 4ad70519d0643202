/**
 * `bun run bench:search` prints the quality of the search over tools on the golden set, beside MiniSearch's defaults and
 * plain BM25, and what it costs at 5,000 tools. `--half tuning` shows one half; `--failing` lists its failures, for tuning.
 */
import type { Tool } from "../../src/catalog/listing.ts"
import { createSearchIndex, search, updateListing } from "../../src/features/search/ranking.ts"
import { coverageOf, HALVES, mcpproxySet, qualityOf, recordedServers, requestsOf, tasksOf } from "./search/golden.ts"
import { bm25, catalogSearch, miniSearch } from "./search/rankers.ts"

const servers = recordedServers()
const rankers = {
  "MiniSearch's defaults": miniSearch(servers),
  "BM25, stems, stop words, all fields": bm25(servers),
  svc: catalogSearch(servers),
}
const number = (value: number) => value.toFixed(2)
const print = (line: string) => process.stdout.write(`${line}\n`)

print(`${servers.length} servers, ${servers.reduce((sum, { tools }) => sum + tools.length, 0)} tools`)
for (const half of HALVES) {
  const requests = requestsOf(half)
  const kinds = [...new Set(requests.map(({ kind }) => kind))]
  print(`\n### ${half}\n| ranker | requests | count | recall@1 | recall@5 | MRR |\n|---|---|--:|--:|--:|--:|`)
  for (const [name, rank] of Object.entries(rankers))
    for (const kind of ["all", ...kinds]) {
      const of = requests.filter((request) => kind === "all" || request.kind === kind)
      const { recall1, recall5, reciprocalRank } = qualityOf(rank, of)
      print(
        `| ${name} | ${kind} | ${of.length} | ${number(recall1)} | ${number(recall5)} | ${number(reciprocalRank)} |`,
      )
    }
}
print("\n### whole tasks: share of the wanted tools among five\n| ranker | tuning | held-out |\n|---|--:|--:|")
for (const [name, rank] of Object.entries(rankers))
  print(`| ${name} | ${HALVES.map((half) => number(coverageOf(rank, tasksOf(half)))).join(" | ")} |`)
const theirs = mcpproxySet()
print(`\nmcpproxy's golden set: recall@5 ${number(coverageOf(catalogSearch(theirs.servers), theirs.tasks))}`)
if (process.argv.includes("--failing"))
  for (const { kind, text, right } of requestsOf("tuning")) {
    const found = rankers.svc(text)
    if (!found.slice(0, 5).some((name) => right.includes(name)))
      print(`\n${kind}: ${text}\n  wanted ${right.join(" ")}\n  found  ${found.slice(0, 6).join(" ")}`)
  }

const TOOLS = 5_000
const copies: { name: string; tools: Tool[] }[] = []
for (let made = 0; made < TOOLS; )
  for (const { name, tools } of servers) {
    const some = tools.slice(0, TOOLS - made)
    if (some.length > 0) copies.push({ name: `${name}-${copies.length}`, tools: [...some] })
    made += some.length
  }
const queries = HALVES.flatMap((half) => requestsOf(half)).map(({ text }) => text)
const times = Array.from({ length: 5 }, () => {
  const started = performance.now()
  const index = createSearchIndex()
  for (const { name, tools } of copies) updateListing(index, { name }, tools)
  const indexed = performance.now()
  for (const query of queries) search(index, query, { limit: 8 })
  const searched = performance.now()
  updateListing(index, { name: copies[0]?.name ?? "" }, copies[0]?.tools ?? [])
  return {
    index: indexed - started,
    query: (searched - indexed) / queries.length,
    update: performance.now() - searched,
  }
})
const median = (of: (time: (typeof times)[number]) => number) => times.map(of).sort((a, b) => a - b)[2] ?? 0
print(
  `\nat ${TOOLS} tools: ${median(({ index }) => index).toFixed(0)} ms to index, ${median(({ query }) => query).toFixed(2)} ms per query, ${median(({ update }) => update).toFixed(1)} ms to update one server (medians of 5)`,
)
