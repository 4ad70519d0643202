/**
 * The MCP clients of this machine: whether each is connected to svc, and buttons that connect it, disconnect it or undo that;
 * and the tokens with which other clients get in.
 */
import { useState } from "preact/hooks"
import { ChangeDialog } from "../change-dialog.tsx"
import { useApp, useStateOf } from "../context.ts"
import { Copy } from "../copy.tsx"
import { useLoaded } from "../hooks.ts"
import { Button, Choice, Empty, Head, StateMark, Table, WhenLoaded } from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import type { Client, Preset } from "../types.ts"
import { clientJson, Tokens } from "./tokens.tsx"

/** The list of clients. In the route, `preset` is what a new connection offers, and `client` is the one to connect. */
export function ClientsView({ route }: { route: Route }) {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const sessions = useStateOf((state) => state.status?.sessions)
  const [open, setOpen] = useState<Opened>()
  const loaded = useLoaded(async () => (await api.get<{ items: readonly Client[] }>("/clients")).items, [configuration])
  const { client: wanted, ...query } = route.query
  const client = loaded.data?.find((one) => one.client === wanted)
  const shown = open ?? (client && { client, change: "connect" as const })
  const close = () => {
    setOpen(undefined)
    if (wanted !== undefined) goTo(["clients"], query, true)
  }
  return (
    <>
      <Head title="Clients" />
      <p class="soft">
        These are the MCP clients on the machine where svc runs. Connect one, and a single entry in its settings gives
        it all of svc's tools.
      </p>
      <WhenLoaded loaded={loaded}>
        {(clients) => {
          const { here = [], away = [] } = Object.groupBy(clients, ({ state }) =>
            state === "no file" ? "away" : "here",
          )
          return (
            <>
              {sessions === 0 && !clients.some(({ state }) => state === "connected") && (
                <div class="note notice">
                  <p>No client is connected to svc, so no client can use svc's tools.</p>
                </div>
              )}
              {here.length === 0 ? (
                <Empty>
                  svc found no settings of a client that it knows on this machine. Choose your client below, or enter
                  the address of svc in its settings.
                </Empty>
              ) : (
                <ClientTable caption="Clients on this machine" clients={here} onOpen={setOpen} />
              )}
              {away.length > 0 && (
                <details>
                  <summary>Other clients that svc knows ({away.length})</summary>
                  <ClientTable caption="Other clients" clients={away} onOpen={setOpen} />
                </details>
              )}
            </>
          )
        }}
      </WhenLoaded>
      <ByAddress preset={route.query.preset ?? ""} />
      <Tokens />
      {shown !== undefined && (
        <OpenDialog {...shown} preset={route.query.preset ?? ""} onClose={close} onDone={loaded.reload} />
      )}
    </>
  )
}

// ---

type Opened = { readonly client: Client; readonly change: "connect" | "disconnect" | "undo" }

type ClientTableProps = { readonly caption: string; readonly clients: readonly Client[]; onOpen(opened: Opened): void }

const ClientTable = ({ caption, clients, onOpen }: ClientTableProps) => (
  <Table
    caption={caption}
    items={clients}
    keyOf={({ client }) => client}
    columns={[
      {
        title: "Client",
        kind: "name",
        draw: ({ title, file }) => (
          <>
            {title}
            <code class="sub">{file}</code>
          </>
        ),
      },
      { title: "State", draw: ({ state }) => <StateMark state={stateText(state)} tone={toneOf(state)} /> },
      {
        title: "Controls",
        draw: (client) => (
          <div class="row">
            {client.state === "connected" ? (
              <>
                <Button
                  label={`Change the connection of ${client.title}`}
                  onClick={() => onOpen({ client, change: "connect" })}
                >
                  Change
                </Button>
                <Button label={`Disconnect ${client.title}`} onClick={() => onOpen({ client, change: "disconnect" })}>
                  Disconnect
                </Button>
              </>
            ) : (
              !client.state.startsWith("unreadable") && (
                <Button
                  kind="primary"
                  label={`Connect ${client.title}`}
                  onClick={() => onOpen({ client, change: "connect" })}
                >
                  Connect
                </Button>
              )
            )}
            {client.undo === true && (
              <Button
                label={`Undo the last change to ${client.title}`}
                onClick={() => onOpen({ client, change: "undo" })}
              >
                Undo the last change
              </Button>
            )}
          </div>
        ),
      },
    ]}
  />
)

const stateText = (state: string): string => (state === "no file" ? "no settings found" : state)

function toneOf(state: string) {
  if (state === "connected") return "good"
  return state.startsWith("unreadable") ? "bad" : "faint"
}

type OpenDialogProps = Opened & { readonly preset: string; onClose(): void; onDone(): void }

function OpenDialog({
  client: { client, title, state, preset: present = "" },
  change,
  preset: given,
  ...rest
}: OpenDialogProps) {
  const { onClose, onDone } = rest
  const { api } = useApp()
  // Without another choice, a client keeps its preset: it must not get more tools by the way.
  const [preset, setPreset] = useState(given || present)
  const [replace, setReplace] = useState(true)
  const [byAddress, setByAddress] = useState(false)
  const presets = useLoaded(() => api.all<Preset>("/presets"), [])
  const names = new Set([...(presets.data ?? []).map(({ name }) => name), ...(present === "" ? [] : [present])])
  const path = `/clients/${encodeURIComponent(client)}/${change}`
  const isConnected = state === "connected"
  if (change !== "connect")
    return (
      <ChangeDialog
        title={change === "undo" ? `Undo svc's last change to the settings of ${title}?` : `Disconnect ${title}?`}
        action={change === "undo" ? "Undo" : "Disconnect"}
        path={path}
        done={change === "undo" ? `The previous settings of ${title} were restored` : `${title} is disconnected`}
        onClose={onClose}
        onDone={onDone}
      >
        {change === "disconnect" && (
          <p>
            This removes only the entry for svc. Servers of {title} that svc has taken over do not come back; to get
            them back, undo the connection instead.
          </p>
        )}
      </ChangeDialog>
    )
  return (
    <ChangeDialog
      title={isConnected ? `Change the connection of ${title}` : `Connect ${title} to svc`}
      action={isConnected ? "Change" : `Connect ${title}`}
      path={path}
      body={{ replace, address: byAddress, ...(preset === "" ? {} : { preset }) }}
      done={`${isConnected ? `The connection of ${title} was changed` : `${title} is connected`}. Restart ${title} if it does not show the tools at once.`}
      onClose={onClose}
      onDone={onDone}
    >
      <div class="form">
        <Choice
          label="Tools"
          isBare={false}
          value={preset}
          options={[["", "All tools"], ...[...names].map((name) => [name, `Preset ${name}`] as const)]}
          hint={
            presets.data?.length === 0 ? (
              <>
                A preset offers only the tools that you choose. <a href={linkTo(["presets", "+"])}>Create a preset</a>
              </>
            ) : (
              presets.data?.find(({ name }) => name === preset)?.description
            )
          }
          onChange={setPreset}
        />
        <Choice
          label="How"
          isBare={false}
          value={byAddress ? "address" : "start"}
          options={[
            ["start", "The client starts svc when it needs it"],
            ["address", "The client connects to the address of svc"],
          ]}
          hint={byAddress ? BY_ADDRESS : BY_START}
          onChange={(value) => setByAddress(value === "address")}
        />
      </div>
      <label class="check">
        <input type="checkbox" checked={replace} onChange={({ currentTarget }) => setReplace(currentTarget.checked)} />
        Remove the client's own entries for servers that svc runs
      </label>
    </ChangeDialog>
  )
}

const BY_START = (
  <>
    The best choice if svc does not always run: the client starts <code>svc proxy</code>, which starts svc if necessary.
    It needs no token, keeps working if the address of svc changes, and tells svc the folder of the project.
  </>
)
const BY_ADDRESS = (
  <>
    The best choice if svc always runs, for example as a service: the client starts nothing and only needs the address
    of svc. With <code>--auth</code>, svc also writes a token into the client's settings. A client that can only start
    programs gets <code>svc proxy</code> all the same.
  </>
)

/** What a client needs that svc does not know, or that runs on another machine. */
function ByAddress({ preset }: { preset: string }) {
  const endpoint = useStateOf((state) => state.status?.endpoint)
  const needsToken = useStateOf((state) => state.status?.authEnabled === true)
  if (endpoint === undefined) return null
  const url = preset === "" ? endpoint : `${endpoint}?preset=${encodeURIComponent(preset)}`
  return (
    <section class="panel">
      <h2>Any other client</h2>
      <p>
        Enter this address as an MCP server (HTTP)
        {preset !== "" && (
          <>
            {" "}
            for the preset <a href={linkTo(["presets"])}>{preset}</a>
          </>
        )}
        :
      </p>
      <Copy text={url} label="the address" />
      <p>
        Or add this to its JSON
        {needsToken && ", and replace TOKEN with the client's token (you can create one below)"}:
      </p>
      <Copy text={clientJson(url, needsToken ? "TOKEN" : undefined)} label="the JSON" />
    </section>
  )
}
