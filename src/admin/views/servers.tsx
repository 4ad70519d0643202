/** The servers with their states, errors and controls. */
import { useState } from "preact/hooks"
import { countsByServer } from "../activity-counts.ts"
import { useStateOf } from "../context.ts"
import { useCountedPeriod } from "../hooks.ts"
import {
  Choice,
  countText,
  Empty,
  Head,
  latencyText,
  numberText,
  Search,
  StateMark,
  Table,
  Tags,
  toneOf,
  Until,
} from "../parts.tsx"
import { linkTo, type Route } from "../router.ts"
import type { Server } from "../types.ts"
import { wordFilter } from "../words.ts"
import { ServerControls, ServerView } from "./server.tsx"
import { ServerCreator } from "./server-editor.tsx"

/** The list of servers, or one server. */
export function ServersView({ route }: { route: Route }) {
  if (route.path[1] === "add") return <ServerCreator />
  return route.path[1] === undefined ? <ServerList /> : <ServerView route={route} />
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

function ServerList() {
  const servers = useStateOf((state) => state.servers)
  const activity = useStateOf((state) => state.activity)
  const [text, setText] = useState("")
  const [wanted, setWanted] = useState("")
  const counts = countsByServer(activity)
  const period = useCountedPeriod()
  const states = [...new Set(servers.map(({ state }) => state))].sort()
  const hasWords = wordFilter(text)
  const shown = servers.filter(
    ({ name, tags, state }) => hasWords(`${name} ${tags.join(" ")}`) && (wanted === "" || state === wanted),
  )
  return (
    <>
      <Head title="Servers">
        <Search label="Search servers" value={text} onInput={setText} />
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
        <Empty>{servers.length === 0 ? "No server is configured yet." : "No server matches."}</Empty>
      ) : (
        <Table
          caption="Servers"
          items={shown}
          keyOf={({ name }) => name}
          columns={[
            { title: "Server", kind: "name", draw: (server) => <ServerName server={server} /> },
            { title: "State", draw: (server) => <ServerStateCell server={server} /> },
            { title: "Tools", kind: "number", draw: (server) => <ToolCount server={server} /> },
            {
              title: `Calls ${period}`,
              kind: "wide number",
              draw: ({ name }) => numberText(counts.get(name)?.calls ?? 0),
            },
            {
              title: "Errors",
              kind: "wide number",
              draw: ({ name }) => {
                const errors = counts.get(name)?.errors ?? 0
                return <span class={errors > 0 ? "error-text" : "soft"}>{numberText(errors)}</span>
              },
            },
            {
              title: "Mean latency",
              kind: "wide number",
              draw: ({ name }) => {
                const found = counts.get(name)
                return found === undefined ? <span class="soft">–</span> : latencyText(found.totalMs / found.calls)
              },
            },
            { title: "Controls", kind: "wide", draw: (server) => <ServerControls server={server} /> },
          ]}
        />
      )}
    </>
  )
}

const ServerName = ({ server: { name, type, template, tags } }: { server: Server }) => (
  <>
    <a href={linkTo(["servers", name])}>{name}</a>
    <span class="sub">
      {template ? "template" : type} <Tags tags={tags} />
    </span>
  </>
)

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
