/** The sessions of clients. */
import { useApp, useStateOf } from "../context.ts"
import { useLoaded, useNow } from "../hooks.ts"
import { Ago, Empty, Head, numberText, StateMark, Table, WhenLoaded } from "../parts.tsx"

type Session = {
  readonly id: string
  readonly principal: string
  readonly client: string
  readonly protocolVersion: string
  readonly lastSeen: string
  readonly listening: boolean
  readonly inFlight: number
  readonly selection: string
}

/** The list of sessions. svc sends no events for sessions, so the view polls. */
export function SessionsView() {
  const { api } = useApp()
  const endpoint = useStateOf((state) => state.status?.endpoint)
  const loaded = useLoaded(() => api.all<Session>("/sessions"), [useNow(READ_MS)])
  return (
    <>
      <Head title="Sessions" />
      <p class="soft">
        A session is the connection of one client. Clients that speak the 2026-07-28 revision have no session: their
        calls appear under Activity.
      </p>
      <WhenLoaded loaded={loaded}>
        {(sessions) =>
          sessions.length === 0 ? (
            <Empty>
              No client has a session. Clients connect to <code>{endpoint ?? "/mcp"}</code>; <code>svc connect</code>{" "}
              adds this address to their settings.
            </Empty>
          ) : (
            <Table
              caption="Sessions"
              items={[...sessions].sort((one, other) => (one.lastSeen < other.lastSeen ? 1 : -1))}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: "Client",
                  kind: "name",
                  draw: ({ client, principal }) => (
                    <>
                      {client === "" ? <span class="soft">unnamed</span> : client}
                      <span class="sub">{principal}</span>
                    </>
                  ),
                },
                {
                  title: "State",
                  draw: ({ listening }) => (
                    <StateMark state={listening ? "listening" : "quiet"} tone={listening ? "good" : "faint"} />
                  ),
                },
                { title: "Last seen", draw: ({ lastSeen }) => <Ago at={lastSeen} /> },
                { title: "Running calls", kind: "wide number", draw: ({ inFlight }) => numberText(inFlight) },
                {
                  title: "Servers",
                  kind: "wide",
                  draw: ({ selection }) =>
                    selection === "" ? <span class="soft">all servers</span> : <code>{selection}</code>,
                },
                { title: "Revision", kind: "wide", draw: ({ protocolVersion }) => protocolVersion },
              ]}
            />
          )
        }
      </WhenLoaded>
    </>
  )
}

// ---

const READ_MS = 5000
