/** The tokens with which clients get in if svc runs with --auth: create one, whose text is shown once, and revoke them. */
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { Copy } from "../copy.tsx"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, Choice, dateText, Failure, Field, StateMark, Table, WhenLoaded } from "../parts.tsx"
import type { Preset } from "../types.ts"

/** The list of tokens, and the form for a new one. */
export function Tokens() {
  const { api, ui } = useApp()
  const isAsked = useStateOf((state) => state.status?.authEnabled === true)
  const loaded = useLoaded(async () => (await api.get<{ items: readonly Token[] }>("/tokens")).items, [])
  const [busy, run] = useAction()
  const revoke = async ({ id, name }: Token) => {
    const isAgreed = await ui.ask({
      title: `Revoke the token ${name || id}?`,
      text: "The client with this token loses its access at once.",
      action: "Revoke",
      isDangerous: true,
    })
    if (!isAgreed) return
    await run(id, async () => {
      await api.send("DELETE", `/tokens/${encodeURIComponent(id)}`)
      loaded.reload()
      return `${name || id} was revoked`
    })
  }
  return (
    <section class="panel">
      <h2>Tokens</h2>
      <p>
        A token is like a password for one client.{" "}
        {isAsked ? (
          "svc accepts only clients that send one."
        ) : (
          <>
            svc does not require tokens now: every client that can reach it can use it. To require them, start svc with{" "}
            <code>svc serve --auth</code>; you can create tokens beforehand.
          </>
        )}
      </p>
      <WhenLoaded loaded={loaded}>
        {(tokens) => (
          <>
            {tokens.length > 0 && (
              <Table
                caption="Tokens"
                items={tokens}
                keyOf={({ id }) => id}
                columns={[
                  { title: "Name", kind: "name", draw: ({ id, name }) => name || id },
                  { title: "Gives access to", draw: accessOf },
                  {
                    title: "Expires",
                    kind: "wide",
                    draw: ({ expires }) => {
                      if (expires === undefined) return "never"
                      return Date.parse(expires) > Date.now() ? (
                        dateText(expires)
                      ) : (
                        <StateMark state="expired" tone="notice" />
                      )
                    },
                  },
                  {
                    title: "Controls",
                    draw: (token) => (
                      <Button
                        isBusy={busy === token.id}
                        label={`Revoke ${token.name || token.id}`}
                        onClick={() => void revoke(token)}
                      >
                        Revoke
                      </Button>
                    ),
                  },
                ]}
              />
            )}
            <NewToken names={tokens.map(({ name }) => name)} onDone={loaded.reload} />
          </>
        )}
      </WhenLoaded>
    </section>
  )
}

/** Returns the entry of svc for the JSON of a client. */
export const clientJson = (url: string, token?: string): string => {
  const headers = token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } }
  return JSON.stringify({ mcpServers: { svc: { type: "http", url, ...headers } } }, null, 2)
}

// ---

type Token = {
  readonly id: string
  readonly name: string
  readonly expires?: string
  readonly tags?: readonly string[]
  readonly presets?: readonly string[]
  readonly metricsOnly?: true
}

/** Returns what a token gives access to. One with presets and empty tags is not limited to tags. */
function accessOf({ tags = [], presets = [], metricsOnly }: Token): string {
  if (metricsOnly) return "only the metrics"
  const limits = [
    ...(presets.length === 0 ? [] : [`preset ${presets.join(", ")}`]),
    ...(tags.length === 0 ? [] : [`tag ${tags.join(", ")}`]),
  ]
  return limits.length === 0 ? "everything, including this page" : limits.join("; ")
}

/** Matches the names of this machine that only itself can reach. */
const LOOPBACK = /^(?:localhost|127\.[\d.]+|\[::1\])$/

/** The values of the field for the access: a preset and a tag follow their word. */
const EVERYTHING = "everything"
const METRICS = "metrics"
const LIFETIMES = [
  ["30d", "In 30 days"],
  ["90d", "In 90 days"],
  ["365d", "In a year"],
  ["", "Never"],
] as const

type NewTokenProps = { readonly names: readonly string[]; onDone(): void }

function NewToken({ names, onDone }: NewTokenProps) {
  const { api } = useApp()
  const servers = useStateOf((state) => state.servers)
  const configuration = useStateOf((state) => state.configuration)
  const endpoint = useStateOf((state) => state.status?.endpoint)
  const presets = useLoaded(() => api.all<Preset>("/presets"), [configuration])
  const [name, setName] = useState("")
  const [access, setAccess] = useState(EVERYTHING)
  const [expires, setExpires] = useState("90d")
  const [made, setMade] = useState<{ readonly name: string; readonly token: string; readonly isForMetrics: boolean }>()
  const shown = useRef<HTMLDivElement>(null)
  useLayoutEffect(() => shown.current?.focus(), [made])
  const [busy, run, problem] = useAction("here")
  const isTaken = name.trim() !== "" && names.includes(name.trim())
  const create = () =>
    run("create", async () => {
      const [, kind, value = ""] = /^(preset|tag) (.*)$/s.exec(access) ?? []
      const { token } = await api.send<{ token: string }>("POST", "/tokens", {
        name: name.trim(),
        ...(kind === undefined ? {} : { [`${kind}s`]: [value] }),
        ...(access === METRICS ? { metricsOnly: true } : {}),
        ...(expires === "" ? {} : { expires }),
      })
      setMade({ name: name.trim(), token, isForMetrics: access === METRICS })
      setName("")
      onDone()
      return undefined
    })
  if (made !== undefined)
    return (
      <div class="note good" role="status" tabIndex={-1} ref={shown}>
        <div>
          <p>
            <strong>The token {made.name}.</strong> Copy it now: svc stores only a hash of it, and does not show it
            again.
          </p>
          <Copy text={made.token} label="the token" />
          {!made.isForMetrics && endpoint !== undefined && (
            <>
              <p>If the client's settings are JSON, add this entry:</p>
              <Copy text={clientJson(endpoint, made.token)} label="the entry" />
              {LOOPBACK.test(new URL(endpoint).hostname) && (
                <p class="soft">
                  For a client on another machine, svc must listen beyond this machine (<code>svc serve --host</code>);
                  then replace {new URL(endpoint).hostname} with the address of this machine.
                </p>
              )}
            </>
          )}
          <Button onClick={() => setMade(undefined)}>I have stored it</Button>
        </div>
      </div>
    )
  const tags = [...new Set(servers.flatMap((server) => server.tags))].sort()
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        if (!isTaken) void create()
      }}
    >
      <h3>Create a token</h3>
      <Field
        label="Name of the token"
        hint={
          isTaken
            ? "A token with this name exists. Choose a different name, or revoke that token first."
            : "Such as the name of the person or program that will use it."
        }
      >
        {(id, describedBy) => (
          <input
            id={id}
            required
            maxLength={200}
            autocomplete="off"
            spellcheck={false}
            aria-describedby={describedBy}
            aria-invalid={isTaken}
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        )}
      </Field>
      <Choice
        label="Gives access to"
        isBare={false}
        value={access}
        options={[
          [EVERYTHING, "Everything, including this page"],
          ...(presets.data ?? []).map((preset) => [`preset ${preset.name}`, `Preset ${preset.name}`] as const),
          ...tags.map((tag) => [`tag ${tag}`, `Servers with the tag ${tag}`] as const),
          [METRICS, "Only the metrics, for monitoring"],
        ]}
        hint={
          access === EVERYTHING
            ? "Whoever has this token can also add servers, which run programs on this machine."
            : undefined
        }
        onChange={setAccess}
      />
      <Choice label="Expires" isBare={false} value={expires} options={LIFETIMES} onChange={setExpires} />
      {problem !== undefined && <Failure text={problem} />}
      <div class="row">
        <Button kind="primary" type="submit" isBusy={busy !== undefined}>
          Create the token
        </Button>
      </div>
    </form>
  )
}
