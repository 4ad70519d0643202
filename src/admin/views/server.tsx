/** One server: its state, problems and remedies, tools, settings and log. */

import { useRef, useState } from "preact/hooks"
import { countsByServer } from "../activity-counts.ts"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useCountedPeriod, useLoaded, useUsage } from "../hooks.ts"
import {
  Ago,
  Breakable,
  Button,
  countText,
  Empty,
  Facts,
  Failure,
  Head,
  latencyText,
  numberText,
  StateMark,
  Table,
  Tags,
  toneOf,
  Until,
  WhenLoaded,
} from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
import { missingSecrets, SecretField } from "../secret-field.tsx"
import type { EffectiveValue, LogLine, Server, ServerInstance, ServerState } from "../types.ts"
import type { Ui } from "../ui.ts"
import { LogPane } from "./logs.tsx"
import { PromptPane, ResourcePane } from "./offers.tsx"
import { ServerEditor } from "./server-editor.tsx"
import { ToolPane } from "./tools.tsx"
import { UpdatePanel } from "./update.tsx"

/** A server with its tabs. */
export function ServerView({ route }: { route: Route }) {
  const [, name = "", tab = ""] = route.path
  const server = useStateOf((state) => state.servers.find((one) => one.name === name))
  // The form of a server that was removed elsewhere stays, with what the person has typed.
  const lastEdited = useRef("")
  if (server !== undefined) lastEdited.current = tab === "settings" ? name : ""
  return (
    <>
      {server === undefined ? (
        <>
          <Head title={name} />
          <Empty>
            No server is named {name}. <a href={linkTo(["servers"])}>All servers</a>
          </Empty>
          {lastEdited.current === name && (
            <Failure text="It was removed elsewhere while its settings were open. What you have typed is still here, so that you can copy it." />
          )}
        </>
      ) : (
        <ServerHead server={server} tab={tab} />
      )}
      {tab === "settings" && lastEdited.current === name && <ServerEditor key={name} name={name} />}
      {server !== undefined && (
        <>
          {tab === "tools" && <ToolPane key={name} server={name} route={route} />}
          {tab === "prompts" && <PromptPane key={name} server={name} />}
          {tab === "resources" && <ResourcePane key={name} server={name} />}
          {tab === "log" && <LogPane key={name} server={name} />}
          {!TABS.slice(1).some(([id]) => id === tab) && <Overview server={server} />}
        </>
      )}
    </>
  )
}

type ServerControlsProps = { readonly server: Server; onDone?(): void }

/** The buttons to restart, enable and disable a server. */
export function ServerControls({ server: { name, enabled, instances }, onDone }: ServerControlsProps) {
  const { api } = useApp()
  const [busy, run] = useAction()
  const change = (word: "restart" | "enable" | "disable") =>
    run(word, async () => {
      await api.send("POST", `/servers/${encodeURIComponent(name)}/${word}`)
      const { state, lastError } = await api.get<Server>(`/servers/${encodeURIComponent(name)}`)
      onDone?.()
      const done = `${name} was ${word === "restart" ? "restarted" : `${word}d`}`
      const text = toneOf(state) === "good" ? `${done}: ${state}` : `${done}, but is now: ${state}`
      if (word === "disable") return `${name}: disabled`
      return toneOf(state) === "good"
        ? text
        : { tone: "notice", text: [text, ...(lastError ?? "").split("\n")].join("\n").trim() }
    })
  return (
    <div class="row">
      {enabled && instances.length > 0 && (
        <Button isBusy={busy === "restart"} label={`Restart ${name}`} onClick={() => void change("restart")}>
          Restart
        </Button>
      )}
      <Button
        isBusy={busy === "enable" || busy === "disable"}
        label={`${enabled ? "Disable" : "Enable"} ${name}`}
        onClick={() => void change(enabled ? "disable" : "enable")}
      >
        {enabled ? "Disable" : "Enable"}
      </Button>
    </div>
  )
}

/** Asks before servers are removed. */
export function askToRemove(ui: Ui, servers: readonly Pick<Server, "name">[]): Promise<boolean> {
  const names = servers.map(({ name }) => name).join(", ")
  return ui.ask({
    title: servers.length === 1 ? `Remove ${names}?` : `Remove ${countText(servers.length, "server")}?`,
    text: `svc stops ${names} and removes ${servers.length === 1 ? "it" : "them"} from mcp.json. It keeps a backup of the file.`,
    action: "Remove",
    isDangerous: true,
  })
}

// ---

const TABS = [
  ["", "Overview"],
  ["tools", "Tools"],
  ["prompts", "Prompts"],
  ["resources", "Resources"],
  ["settings", "Settings"],
  ["log", "Log"],
] as const

/** Tells the person how to resolve a state. */
export const REMEDIES: Readonly<Partial<Record<ServerState, string>>> = {
  "crash-loop":
    "svc no longer restarts it, because it crashed too often. The log shows the output of the process. Fix the cause, then restart the server.",
  failed: "svc does not restart it, because restartOnExit is off. Fix the cause, then restart the server.",
  invalid: "Correct the value in Settings or in the file. svc applies the file when it is saved.",
  "sign-in needed": "Authorize svc; it then connects by itself.",
  "token needed": "The server requires a token. Add the header Authorization in Settings.",
  "credentials refused": "The server refused the configured headers. Enter a valid token in Settings.",
  "not loaded": "svc has not applied the file yet. See Issues.",
  "not in use": "svc starts an instance when a client with a project connects.",
  reconnecting: "svc retries by itself. Restart the server to retry now.",
  restarting: "svc restarts it by itself. Restart it yourself to retry now.",
}

function ServerHead({ server, tab }: { server: Server; tab: string }) {
  const { name, state } = server
  return (
    <>
      <Head
        title={
          <>
            <a class="crumb" href={linkTo(["servers"])}>
              Servers /
            </a>{" "}
            {name}
          </>
        }
      >
        <StateMark state={state} />
        <ServerControls server={server} />
        <RemoveButton name={name} />
      </Head>
      <nav class="tabs" aria-label={`Views of ${name}`}>
        {TABS.map(([id, title]) => (
          <a
            key={id}
            href={linkTo(id === "" ? ["servers", name] : ["servers", name, id])}
            aria-current={tab === id ? "page" : undefined}
          >
            {title}
          </a>
        ))}
      </nav>
    </>
  )
}

function RemoveButton({ name }: { name: string }) {
  const { api, ui } = useApp()
  const [, run] = useAction()
  const remove = async () => {
    if (!(await askToRemove(ui, [{ name }]))) return
    // First, because the view of a removed server only says that there is none. "Back" must not lead there either.
    goTo(["servers"], {}, true)
    await run("remove", async () => {
      await api.send("DELETE", `/servers/${encodeURIComponent(name)}`)
      return `${name} was removed`
    })
  }
  return (
    <Button kind="danger" label={`Remove ${name}`} onClick={() => void remove()}>
      Remove
    </Button>
  )
}

function Overview({ server }: { server: Server }) {
  const { state, lastError, instances, tags, type, template } = server
  const remedy = REMEDIES[state as ServerState]
  const missing = missingSecrets(lastError ?? "")
  return (
    <>
      {(lastError !== undefined || remedy !== undefined) && (
        <div class={`note ${lastError === undefined ? "" : toneOf(state)}`}>
          <div>
            {lastError !== undefined && <p>{lastError}</p>}
            {remedy !== undefined && missing.length === 0 && <p class="soft">{remedy}</p>}
            {missing.map((secret) => (
              <SecretField key={`${secret.place} ${secret.name}`} {...secret} />
            ))}
            {HAS_LOG.has(state) && <LastLines server={server.name} />}
          </div>
          {state === "sign-in needed" && <AuthorizeButton name={server.name} />}
          {IN_SETTINGS.has(state) && missing.length === 0 && (
            <a class="button" href={linkTo(["servers", server.name, "settings"])}>
              Open the settings
            </a>
          )}
        </div>
      )}
      {instances.map((instance) => (
        <Instance key={instance.id} instance={instance} isTemplate={template} />
      ))}
      {instances.length === 0 && (
        <section class="panel">
          <Facts
            rows={[
              ["Type", template ? "template" : type],
              ["Tags", tags.length === 0 ? "none" : <Tags tags={tags} />],
            ]}
          />
        </section>
      )}
      <UpdatePanel key={server.name} name={server.name} />
      <Effective name={server.name} />
    </>
  )
}

/** The states in which the log of a server shows the cause. */
const HAS_LOG: ReadonlySet<string> = new Set(["failed", "crash-loop", "restarting", "reconnecting"])
/** The states in which a setting of a server is wrong. */
const IN_SETTINGS: ReadonlySet<string> = new Set([
  "invalid",
  "token needed",
  "credentials refused",
  "failed",
  "crash-loop",
])
const LAST_LINES = 8

/** The end of a server's log. */
function LastLines({ server }: { server: string }) {
  const { api } = useApp()
  const attempts = useStateOf((state) => state.servers.find(({ name }) => name === server)?.instances[0]?.restarts)
  const loaded = useLoaded(
    async () => (await api.get<{ items: readonly LogLine[] }>("/logs", { server, limit: LAST_LINES })).items,
    [server, attempts],
  )
  if (loaded.data === undefined || loaded.data.length === 0) return null
  return (
    <>
      <p class="soft">
        The last lines of its log (<a href={linkTo(["servers", server, "log"])}>all</a>):
      </p>
      <pre class="code">{loaded.data.map(({ message }) => message).join("\n")}</pre>
    </>
  )
}

/** Starts the sign-in. It also shows a link, because a browser may block a window that opens after a delay. */
export function AuthorizeButton({ name }: { name: string }) {
  const { api } = useApp()
  const [busy, run] = useAction()
  const [address, setAddress] = useState<string>()
  const authorize = () =>
    run("authorize", async () => {
      const { url } = await api.send<{ url?: string }>("POST", `/servers/${encodeURIComponent(name)}/authorize`)
      if (url === undefined) return `svc is authorized at ${name}`
      if (!/^https?:/.test(url)) throw new Error(`the sign-in address of ${name} is not a web page; see its log`)
      setAddress(url)
      window.open(url, "_blank", "noopener,noreferrer")
      return "Sign in on the page that opened; svc then connects by itself."
    })
  return (
    <div class="row">
      <Button kind="primary" isBusy={busy !== undefined} label={`Authorize ${name}`} onClick={() => void authorize()}>
        Authorize
      </Button>
      {address !== undefined && (
        <a href={address} target="_blank" rel="noopener noreferrer">
          Open the sign-in page
        </a>
      )}
    </div>
  )
}

function Instance({ instance, isTemplate }: { instance: ServerInstance; isTemplate: boolean }) {
  const activity = useStateOf((state) => state.activity)
  const counts = countsByServer(activity).get(instance.name)
  const period = useCountedPeriod()
  const usage = useUsage()?.servers[instance.name]
  const {
    characters,
    protocolErrors = [],
    warnings = [],
    issues = [],
    changedTools = [],
    suspiciousTools = [],
  } = instance
  const notes = [
    ...issues,
    ...protocolErrors,
    ...warnings,
    ...(changedTools.length === 0 ? [] : [`Tools with a changed definition: ${changedTools.join(", ")}`]),
    ...(suspiciousTools.length === 0 ? [] : [`Invisible characters in: ${suspiciousTools.join(", ")}`]),
  ]
  return (
    <section class="panel">
      {isTemplate && (
        <h2>
          {instance.id} <StateMark state={instance.state} />
        </h2>
      )}
      <Facts
        rows={[
          ["Type", instance.type],
          ["Tags", instance.tags.length === 0 ? "none" : <Tags tags={instance.tags} />],
          ["Process", instance.pid],
          ["Since", instance.since === undefined ? undefined : <Ago at={instance.since} />],
          ["Restarts", numberText(instance.restarts)],
          ["Attempt", instance.attempt === undefined ? undefined : numberText(instance.attempt)],
          ["Next retry", instance.nextRetryAt === undefined ? undefined : <Until at={instance.nextRetryAt} />],
          ["Last ping", instance.lastPing === undefined ? undefined : <Ago at={instance.lastPing} />],
          ["Protocol", instance.protocolVersion],
          ["Memory", usage === undefined || isTemplate ? undefined : `${Math.round(usage.memory / 1024 ** 2)} MB`],
          ["Processor time", usage === undefined || isTemplate ? undefined : latencyText(usage.cpu)],
          ["Tools", instance.tools === undefined ? undefined : numberText(instance.tools)],
          ["Prompts", instance.prompts === undefined ? undefined : numberText(instance.prompts)],
          ["Resources", instance.resources === undefined ? undefined : numberText(instance.resources)],
          [
            "Context",
            characters === undefined ? undefined : countText(characters.tools + characters.instructions, "character"),
          ],
          [`Calls ${period}`, numberText(counts?.calls ?? 0)],
          [`Errors ${period}`, numberText(counts?.errors ?? 0)],
          ["Mean latency", counts === undefined ? undefined : latencyText(counts.totalMs / counts.calls)],
        ]}
      />
      {notes.map((text) => (
        <div key={text} class="note notice">
          <p>{text}</p>
        </div>
      ))}
    </section>
  )
}

/** The effective settings of a server, each with its source. */
function Effective({ name }: { name: string }) {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const loaded = useLoaded(
    () => api.get<{ effective: readonly EffectiveValue[] }>(`/servers/${encodeURIComponent(name)}`),
    [name, configuration],
  )
  return (
    <section>
      <h2>Effective settings</h2>
      <WhenLoaded loaded={loaded}>
        {({ effective }) => {
          const { assumed = [], given = [] } = Object.groupBy(effective, ({ from }) =>
            from.every((one) => one === "built-in") ? "assumed" : "given",
          )
          return (
            <>
              <Values caption="Effective settings" values={given} />
              <details>
                <summary>Defaults ({assumed.length})</summary>
                <Values caption="Default settings" values={assumed} />
              </details>
            </>
          )
        }}
      </WhenLoaded>
    </section>
  )
}

const Values = ({ caption, values }: { caption: string; values: readonly EffectiveValue[] }) => (
  <Table
    caption={caption}
    items={values}
    keyOf={({ key }) => key}
    columns={[
      {
        title: "Key",
        kind: "name",
        draw: ({ key }) => (
          <code>
            <Breakable text={key} />
          </code>
        ),
      },
      { title: "Value", draw: ({ value }) => <code>{typeof value === "string" ? value : JSON.stringify(value)}</code> },
      { title: "From", kind: "wide", draw: ({ from }) => <span class="soft">{from.join(", ")}</span> },
    ]}
  />
)
