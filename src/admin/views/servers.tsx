/** The servers with their states, errors and controls. */
import { useState } from "preact/hooks"
import { countsByServer } from "../activity-counts.ts"
import { type Api, textOf } from "../api.ts"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useCountedPeriod, useUsage } from "../hooks.ts"
import {
  Button,
  Choice,
  countText,
  Empty,
  Head,
  latencyText,
  numberText,
  Search,
  Selectable,
  SelectionBar,
  StateMark,
  Table,
  Tags,
  toneOf,
  Until,
} from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import type { Server } from "../types.ts"
import { wordFilter } from "../words.ts"
import { askToRemove, ServerControls, ServerView } from "./server.tsx"
import { ServerCreator } from "./server-editor.tsx"

/** The list of servers, or one server. */
export function ServersView({ route }: { route: Route }) {
  if (route.path[1] === "add") return <ServerCreator />
  return route.path[1] === undefined ? <ServerList route={route} /> : <ServerView route={route} />
}

/** The number of servers for the navigation, and the number of failing servers. */
export function ServerCount() {
  const servers = useStateOf((state) => state.servers)
  const bad = servers.filter(({ state }) => toneOf(state) === "bad").length
  return bad > 0 ? (
    <span class="count bad">
      {bad} failing / {servers.length}
    </span>
  ) : (
    <span class="count">{servers.length}</span>
  )
}

// ---

function ServerList({ route }: { route: Route }) {
  const servers = useStateOf((state) => state.servers)
  const activity = useStateOf((state) => state.activity)
  const [text, setText] = useState("")
  const [wanted, setWanted] = useState("")
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const counts = countsByServer(activity)
  const period = useCountedPeriod()
  const { tag = "" } = route.query
  const filterByTag = (next: string) => goTo(route.path, { ...route.query, tag: next })
  const states = [...new Set(servers.map(({ state }) => state))].sort()
  const hasWords = wordFilter(text)
  const shown = servers.filter(
    ({ name, tags, state }) =>
      hasWords(`${name} ${tags.join(" ")}`) &&
      (wanted === "" || state === wanted) &&
      (tag === "" || tags.includes(tag)),
  )
  const [first] = shown
  const usage = useUsage()
  const callsOf = ({ name }: Server) => counts.get(name)?.calls ?? 0
  const errorsOf = ({ name }: Server) => counts.get(name)?.errors ?? 0
  const latencyOf = ({ name }: Server) => {
    const found = counts.get(name)
    return found === undefined ? undefined : found.totalMs / found.calls
  }
  return (
    <>
      <Head title="Servers">
        {tag !== "" && (
          <button type="button" class="button" onClick={() => filterByTag("")}>
            <span class="hidden">Remove the filter: </span>tag {tag} <span aria-hidden="true">✕</span>
          </button>
        )}
        <Search
          label="Search servers"
          value={text}
          onlyHit={shown.length === 1 && first !== undefined ? linkTo(["servers", first.name]) : undefined}
          onInput={setText}
        />
        <Choice
          label="State"
          value={wanted}
          options={[["", "All states"], ...states.map((state) => [state, state] as const)]}
          onChange={setWanted}
        />
        <a class="button primary" href={linkTo(["servers", "add"])}>
          Add a server
        </a>
      </Head>
      {shown.length === 0 ? (
        <Empty>
          {servers.length === 0 ? (
            <>
              No server is configured yet. <a href={linkTo(["servers", "add"])}>Add a server</a>, or{" "}
              <a href={linkTo(["registry"])}>find one in the registry</a>.
            </>
          ) : (
            "No server matches."
          )}
        </Empty>
      ) : (
        <Table
          caption="Servers"
          items={shown}
          keyOf={({ name }) => name}
          columns={[
            {
              title: "Server",
              kind: "name",
              sort: ({ name }) => name,
              draw: (server) => (
                <Selectable label={server.name} chosen={chosen} id={server.name} onChoose={setChosen}>
                  <ServerName server={server} onPick={filterByTag} />
                </Selectable>
              ),
            },
            { title: "State", sort: ({ state }) => state, draw: (server) => <ServerStateCell server={server} /> },
            {
              title: "Tools",
              kind: "number",
              sort: ({ tools = -1 }) => tools,
              draw: (server) => <ToolCount server={server} />,
            },
            {
              title: `Calls ${period}`,
              kind: "wide number",
              sort: callsOf,
              draw: (server) => numberText(callsOf(server)),
            },
            {
              title: "Errors",
              kind: "wide number",
              sort: errorsOf,
              draw: (server) => (
                <span class={errorsOf(server) > 0 ? "error-text" : "soft"}>{numberText(errorsOf(server))}</span>
              ),
            },
            {
              title: "Mean latency",
              kind: "wide number",
              sort: (server) => latencyOf(server) ?? -1,
              draw: (server) => {
                const latency = latencyOf(server)
                return latency === undefined ? <span class="soft">–</span> : latencyText(latency)
              },
            },
            {
              title: "Memory",
              kind: "wide number",
              sort: ({ name }) => usage?.servers[name]?.memory ?? -1,
              draw: ({ name }) => {
                const memory = usage?.servers[name]?.memory
                return memory === undefined ? <span class="soft">–</span> : `${Math.round(memory / 1024 ** 2)} MB`
              },
            },
            { title: "Controls", kind: "wide", draw: (server) => <ServerControls server={server} /> },
          ]}
        />
      )}
      {usage !== undefined && <p class="soft">svc itself uses {Math.round(usage.own.memory / 1024 ** 2)} MB.</p>}
      <SelectedServers servers={shown.filter(({ name }) => chosen.has(name))} onClear={() => setChosen(new Set())} />
    </>
  )
}

const ServerName = ({
  server: { name, type, template, tags },
  onPick,
}: {
  server: Server
  onPick(tag: string): void
}) => (
  <>
    <a href={linkTo(["servers", name])}>{name}</a>
    <span class="sub">
      {template ? "template" : type} <Tags tags={tags} onPick={onPick} />
    </span>
  </>
)

/** The controls of the selected servers. A control concerns those of them that it can change. */
function SelectedServers({ servers, onClear }: { servers: readonly Server[]; onClear(): void }) {
  const { api, ui } = useApp()
  const [busy, run] = useAction()
  if (servers.length === 0) return null
  const change = async (word: Control, concerned: readonly Server[]) => {
    const isAgreed = word !== "Remove" || (await askToRemove(ui, concerned))
    if (!isAgreed) return
    await run(word, async () => {
      const failures: string[] = []
      // One at a time, because each change writes mcp.json.
      for (const { name } of concerned)
        await sendControl(api, name, word).catch((error) => failures.push(`${name}: ${textOf(error)}`))
      if (failures.length > 0) throw new Error(failures.join("\n"))
      onClear()
      return `${countText(concerned.length, "server")} ${word === "Restart" ? "restarted" : `${word.toLowerCase()}d`}`
    })
  }
  return (
    <SelectionBar text={countText(servers.length, "server")} onClear={onClear}>
      {CONTROLS.map(([word, concerns]) => {
        const concerned = servers.filter(concerns)
        return (
          <Button
            key={word}
            kind={word === "Remove" ? "danger" : "plain"}
            isBusy={busy === word}
            disabled={concerned.length === 0}
            onClick={() => void change(word, concerned)}
          >
            {word}
          </Button>
        )
      })}
    </SelectionBar>
  )
}

type Control = "Enable" | "Disable" | "Restart" | "Remove"

const CONTROLS: readonly (readonly [word: Control, concerns: (server: Server) => boolean])[] = [
  ["Enable", ({ enabled }) => !enabled],
  ["Disable", ({ enabled }) => enabled],
  ["Restart", ({ enabled, instances }) => enabled && instances.length > 0],
  ["Remove", () => true],
]

const sendControl = ({ send }: Pick<Api, "send">, name: string, word: Control): Promise<unknown> => {
  const path = `/servers/${encodeURIComponent(name)}`
  return word === "Remove" ? send("DELETE", path) : send("POST", `${path}/${word.toLowerCase()}`)
}

function ServerStateCell({ server }: { server: Server }) {
  const { state, lastError, instances } = server
  const waiting = instances.find(({ nextRetryAt }) => nextRetryAt !== undefined)
  return (
    <>
      <StateMark state={state} />
      {waiting?.nextRetryAt !== undefined && (
        <span class="sub">
          attempt {(waiting.attempt ?? 0) + 1} <Until at={waiting.nextRetryAt} />
        </span>
      )}
      {lastError !== undefined && <span class="sub error-text clamp">{lastError}</span>}
    </>
  )
}

const ToolCount = ({ server: { name, tools, hiddenTools = 0 } }: { server: Server }) =>
  tools === undefined ? (
    <span class="soft">–</span>
  ) : (
    <>
      <a href={linkTo(["servers", name, "tools"])} aria-label={`${countText(tools, "tool")} of ${name}`}>
        {numberText(tools)}
      </a>
      {hiddenTools > 0 && <span class="sub">{numberText(hiddenTools)} hidden</span>}
    </>
  )
