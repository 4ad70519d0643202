/** The tool search of clients, with the scores that determine the order. */
import { useApp, useStateOf } from "../context.ts"
import { useLoaded, useSettled } from "../hooks.ts"
import { countText, Empty, Head, Search, Table, WhenLoaded } from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import type { Tool } from "../types.ts"

/** A search field with ranked results. */
export function SearchView({ route }: { route: Route }) {
  const { api } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const { q = "" } = route.query
  const text = q.trim()
  const query = useSettled(text, 200)
  const loaded = useLoaded<Answer>(async () => {
    if (query === "") return { query, items: [] }
    const { items } = await api.get<{ items: readonly Tool[] }>("/search", { q: query, limit: 50 })
    return { query, items }
  }, [query, catalog])
  const { data, error } = loaded
  const [hit, ...others] = data?.query === text ? data.items : []
  return (
    <>
      <Head title="Search">
        <Search
          label="What should the tool do?"
          value={q}
          onlyHit={hit !== undefined && others.length === 0 ? linkTo(["tools", hit.qualifiedName]) : undefined}
          onInput={(value) => goTo(["search"], { q: value }, true)}
        />
      </Head>
      <p class="soft">
        Clients with many tools find them through this search. It matches words in names, titles, descriptions, hints
        and parameters; rarer words weigh more.
      </p>
      <WhenLoaded loaded={loaded}>
        {({ query: answered, items }) => {
          if (text === "") return <Empty>Type a few words, as an assistant would.</Empty>
          if (items.length === 0 && answered !== text) return error === undefined ? <Empty>Searching …</Empty> : null
          if (items.length === 0)
            return (
              <Empty>
                No tool matches. Synonyms and other word forms were tried too.{" "}
                <a href={linkTo(["tools"])}>Look through all tools</a>
              </Empty>
            )
          const best = items[0]?.score ?? 1
          return (
            <>
              <p class="soft" aria-live="polite">
                {countText(items.length, "tool")}, best first
              </p>
              <Table
                caption="Found tools"
                items={items.map((tool, at) => ({ tool, rank: at + 1 }))}
                keyOf={({ tool }) => tool.qualifiedName}
                columns={[
                  { title: "#", kind: "number", draw: ({ rank }) => rank },
                  {
                    title: "Tool",
                    kind: "name",
                    draw: ({ tool }) => (
                      <>
                        <span class="crumb">{tool.server} / </span>
                        <a href={linkTo(["tools", tool.qualifiedName])}>{tool.name}</a>
                        <span class="sub clamp">{tool.description}</span>
                      </>
                    ),
                  },
                  {
                    title: "Score",
                    kind: "number",
                    draw: ({ tool: { score = 0 } }) => (
                      <>
                        {score.toFixed(2)}
                        <meter
                          min={0}
                          max={best}
                          value={score}
                          aria-label={`${Math.round((100 * score) / best)} % of the best`}
                        />
                      </>
                    ),
                  },
                  { title: "Words found in", kind: "wide", draw: ({ tool }) => (tool.matched ?? []).join(", ") },
                ]}
              />
            </>
          )
        }}
      </WhenLoaded>
    </>
  )
}

// ---

/** The tools that a query has found. */
type Answer = { readonly query: string; readonly items: readonly Tool[] }
