/** The tools, with the visibility of each. */
import { useEffect, useState } from "preact/hooks"
import { Problem, textOf } from "../api.ts"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import {
  Button,
  Choice,
  countText,
  Empty,
  Head,
  numberText,
  Search,
  Selectable,
  SelectionBar,
  Table,
  WhenLoaded,
} from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import type { Tool } from "../types.ts"
import { wordFilter } from "../words.ts"
import { askForZeroTools } from "../zero-tools.ts"
import { ToolView } from "./tool.tsx"
import { ToolState, tokensOf } from "./tool-facts.tsx"

/** The list of all tools, or one tool. */
export const ToolsView = ({ route }: { route: Route }) =>
  route.path[1] === undefined ? (
    <>
      <Head title="Tools" />
      <ToolPane route={route} />
    </>
  ) : (
    <ToolView key={route.path[1]} name={route.path[1]} />
  )

/** The tools of one server, or of all servers. */
export function ToolPane({ server, route }: { server?: string; route: Route }) {
  const { api, ui } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const configuration = useStateOf((state) => state.configuration)
  const [busy, run] = useAction()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const loaded = useLoaded(() => api.all<Tool>("/tools", { tokens: true, server }), [server, catalog, configuration])
  const { q = "", shows = "", server: owner = "" } = route.query
  const filter = (change: Readonly<Record<string, string>>) => goTo(route.path, { ...route.query, ...change }, true)
  const hasWords = wordFilter(q)
  const matches = (tool: Tool) =>
    (owner === "" || tool.server === owner) &&
    (shows === "" || (shows === "hidden") === isHidden(tool)) &&
    hasWords(`${tool.server} / ${tool.name} ${tool.description ?? ""}`)
  const owners = new Set([...(loaded.data ?? []).map((tool) => tool.server), ...(owner === "" ? [] : [owner])])
  const [hit, ...others] = (loaded.data ?? []).filter(matches)
  const change = async (tools: readonly Tool[], disabled: boolean) => {
    const changes = tools.map((tool) => ({ server: tool.server, tool: tool.name, disabled }))
    const isDone = await askForZeroTools(ui, (confirmZeroTools) =>
      api.send("PATCH", "/tools", { changes, confirmZeroTools }),
    )
    if (isDone) loaded.reload()
    return isDone
  }
  const changeMarked = (tools: readonly Tool[], disabled: boolean) =>
    run(disabled ? "hide" : "show", async () => {
      if (!(await change(tools, disabled))) return undefined
      setChosen(new Set())
      return `${countText(tools.length, "tool")} ${disabled ? "hidden from clients" : "shown to clients"}`
    })
  return (
    <>
      <div class="row">
        <Search
          label="Search tools"
          value={q}
          onlyHit={hit !== undefined && others.length === 0 ? linkTo(["tools", hit.qualifiedName]) : undefined}
          onInput={(value) => filter({ q: value })}
        />
        {server === undefined && (
          <Choice
            label="Server"
            value={owner}
            options={[["", "All servers"], ...[...owners].sort().map((name) => [name, name] as const)]}
            onChange={(name) => filter({ server: name })}
          />
        )}
        <Choice label="Which tools" value={shows} options={SHOWS} onChange={(value) => filter({ shows: value })} />
      </div>
      <WhenLoaded loaded={loaded}>
        {(all) => {
          const found = all.filter(matches)
          const marked = found.filter(({ qualifiedName }) => chosen.has(qualifiedName))
          const visible = all.filter((tool) => !isHidden(tool))
          const tokens = visible.reduce((sum, tool) => sum + tokensOf(tool), 0)
          return (
            <>
              <div class="row">
                {found.length > 0 && (
                  <label class="check">
                    <input
                      type="checkbox"
                      checked={marked.length > 0 && marked.length === found.length}
                      indeterminate={marked.length > 0 && marked.length < found.length}
                      onChange={({ currentTarget }) =>
                        setChosen(new Set(currentTarget.checked ? found.map(({ qualifiedName }) => qualifiedName) : []))
                      }
                    />
                    Select all {countText(found.length, "tool")}
                  </label>
                )}
                <span class="soft">
                  Clients see {countText(visible.length, "tool")} with about {countText(tokens, "token")}
                </span>
              </div>
              {found.length === 0 ? (
                <NoTools
                  server={server}
                  isFiltered={all.length > 0}
                  onClear={() => filter({ q: "", shows: "", server: "" })}
                />
              ) : (
                <Table
                  caption="Tools"
                  items={found}
                  keyOf={({ qualifiedName }) => qualifiedName}
                  columns={[
                    {
                      title: "Tool",
                      kind: "name",
                      sort: ({ name }) => name,
                      draw: (tool) => (
                        <Selectable
                          label={`Select ${tool.name}`}
                          chosen={chosen}
                          id={tool.qualifiedName}
                          onChoose={setChosen}
                        >
                          <ToolName tool={tool} showsServer={server === undefined} />
                        </Selectable>
                      ),
                    },
                    {
                      title: "Clients see",
                      sort: ({ gone, held, disabled }) => [gone, held, disabled].indexOf(true),
                      draw: (tool) => <ToolVisibility tool={tool} onChange={(disabled) => change([tool], disabled)} />,
                    },
                    {
                      title: "Tokens",
                      kind: "wide number",
                      sort: tokensOf,
                      draw: (tool) => (tool.disabled ? <span class="soft">–</span> : numberText(tokensOf(tool))),
                    },
                  ]}
                />
              )}
              {marked.length > 0 && (
                <SelectionBar text={countText(marked.length, "tool")} onClear={() => setChosen(new Set())}>
                  <Button isBusy={busy === "hide"} onClick={() => void changeMarked(marked, true)}>
                    Hide {numberText(marked.length)}
                  </Button>
                  <Button isBusy={busy === "show"} onClick={() => void changeMarked(marked, false)}>
                    Show {numberText(marked.length)}
                  </Button>
                </SelectionBar>
              )}
            </>
          )
        }}
      </WhenLoaded>
    </>
  )
}

/** Whether a tool is hidden from clients. */
const isHidden = ({ disabled, held, gone }: Tool): boolean => disabled || held === true || gone === true

// ---

const SHOWS = [
  ["", "All tools"],
  ["visible", "Visible only"],
  ["hidden", "Hidden only"],
] as const

type NoToolsProps = { readonly server: string | undefined; readonly isFiltered: boolean; onClear(): void }

/** Says why the list is empty, and what to do next. */
function NoTools({ server, isFiltered, onClear }: NoToolsProps) {
  const servers = useStateOf((state) => state.servers)
  if (isFiltered)
    return (
      <Empty>
        No tool matches. <Button onClick={onClear}>Show all tools</Button>
      </Empty>
    )
  if (servers.length === 0)
    return (
      <Empty>
        No server is configured yet, so there are no tools. <a href={linkTo(["servers", "add"])}>Add a server</a>
      </Empty>
    )
  if (server === undefined)
    return (
      <Empty>
        No tools are known: no connected server offers any. <a href={linkTo(["servers"])}>Look at the servers</a>
      </Empty>
    )
  return (
    <Empty>
      No tools of {server} are known. <a href={linkTo(["servers", server])}>Look at its state</a> or{" "}
      <a href={linkTo(["servers", server, "log"])}>its log</a>.
    </Empty>
  )
}

/** The state of one tool, with a switch. It turns at once, and back if the change is refused or not confirmed. */
function ToolVisibility({ tool, onChange }: { tool: Tool; onChange(disabled: boolean): Promise<boolean> }) {
  const [busy, run] = useAction()
  /** What the person has chosen, until the list has been read again. */
  const [chosen, setChosen] = useState<{ readonly disabled: boolean }>()
  useEffect(() => {
    if (busy === undefined) setChosen(undefined)
  }, [tool])
  const { disabled } = chosen ?? tool
  const toggle = async () => {
    setChosen({ disabled: !disabled })
    let isMade = false
    await run("toggle", async () => {
      isMade = await onChange(!disabled).catch((error: unknown) => {
        if (error instanceof Problem && error.status === 401) throw error
        throw new Error(`${tool.name} is still ${disabled ? "hidden" : "visible"}: ${textOf(error)}`)
      })
      return undefined
    })
    if (!isMade) setChosen(undefined)
  }
  return (
    <div class="switched">
      <button
        type="button"
        role="switch"
        class="switch"
        aria-checked={!disabled}
        aria-busy={busy !== undefined}
        aria-label={`Show ${tool.name} to clients`}
        onClick={() => {
          if (busy === undefined) void toggle()
        }}
      />
      <ToolState tool={{ ...tool, disabled }} />
    </div>
  )
}

const ToolName = ({ tool, showsServer }: { tool: Tool; showsServer: boolean }) => (
  <>
    {showsServer && (
      <a class="crumb" href={linkTo(["servers", tool.server, "tools"])}>
        {tool.server} /{" "}
      </a>
    )}
    <a href={linkTo(["tools", tool.qualifiedName])}>{tool.name}</a>
    {tool.upstreamDescription !== undefined && <span class="tag">description replaced</span>}
    <span class="sub clamp">{tool.description}</span>
  </>
)
