/** The settings of a server in mcp.json, as a form generated from the schema, or as JSON. */
import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Problem } from "../api.ts"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { mergedSettings } from "../merge.ts"
import { Button, Choice, Failure, Field, Head, WhenLoaded } from "../parts.tsx"
import { goFromHere, linkTo } from "../router.ts"
import { JsonField, type Schema, SchemaForm } from "../schema-form.tsx"
import type { PastedServer, WrittenServer } from "../types.ts"
import { askForZeroTools } from "../zero-tools.ts"
import { addServer, Paste } from "./paste.tsx"

/** Changes a server. */
export function ServerEditor({ name }: { name: string }) {
  const { api } = useApp()
  const loaded = useLoaded(
    async () => ({
      written: await api.get<WrittenServer>(`/config/servers/${encodeURIComponent(name)}`),
      schema: await serverSchemaFrom(api),
    }),
    [name],
  )
  return (
    <WhenLoaded loaded={loaded}>
      {({ written, schema }) => (
        <Editor
          key={written.hash}
          written={written}
          schema={schema}
          isLoading={loaded.isLoading}
          onReload={loaded.reload}
        />
      )}
    </WhenLoaded>
  )
}

/** Adds a server. */
export function ServerCreator() {
  const { api, live } = useApp()
  const loaded = useLoaded(() => serverSchemaFrom(api), [])
  const [name, setName] = useState("")
  const [kind, setKind] = useState<"command" | "url">("command")
  const [server, setServer] = useState<Settings>({})
  const [isTemplate, setTemplate] = useState(false)
  // Some controls keep what a person types, so another pasted server needs new ones.
  const [pastes, setPastes] = useState(0)
  const [isSeveral, setSeveral] = useState(false)
  const [movesKeys, setMovesKeys] = useState(true)
  const [busy, run, problem] = useAction("here")
  const isTaken = useStateOf((state) => state.servers.some((one) => one.name === name))
  const add = async () => {
    const whole = withWords(server)
    const go = goFromHere()
    const isAdded = await run("add", () =>
      addServer({ api, live }, name, whole, { moveKeys: movesKeys, template: isTemplate }),
    )
    if (isAdded) go(["servers", name])
  }
  const onRead = (pasted: PastedServer) => {
    setName(pasted.name)
    setServer(pasted.server)
    setTemplate(pasted.template)
    setKind(typeof pasted.server.url === "string" ? "url" : "command")
    setPastes((before) => before + 1)
  }
  return (
    <>
      <Head
        title={
          <>
            <a class="crumb" href={linkTo(["servers"])}>
              Servers /
            </a>{" "}
            Add a server
          </>
        }
      >
        <a href={linkTo(["servers", "import"])}>Import from my clients</a>
        <a href={linkTo(["registry"])}>Search the registries</a>
      </Head>
      <Paste onRead={onRead} onSeveral={setSeveral} />
      <div hidden={isSeveral}>
        <WhenLoaded loaded={loaded}>
          {(schema) => (
            <form
              class="panel form"
              onSubmit={(event) => {
                event.preventDefault()
                void add()
              }}
            >
              <Field
                label="Name"
                hint={
                  isTaken ? (
                    <>
                      <span class="problem">A server with this name already exists.</span> Choose another, or{" "}
                      <a href={linkTo(["servers", name, "settings"])}>change that server</a>.
                    </>
                  ) : (
                    "Use letters, digits, hyphens and underscores: clients see the name in front of each tool."
                  )
                }
              >
                {(id, describedBy) => (
                  <input
                    id={id}
                    required
                    aria-describedby={describedBy}
                    value={name}
                    onInput={({ currentTarget }) => setName(currentTarget.value)}
                  />
                )}
              </Field>
              <Choice
                label="Kind"
                isBare={false}
                value={kind}
                options={[
                  ["command", "A command on this machine (stdio)"],
                  ["url", "A remote server (HTTP)"],
                ]}
                onChange={(value) => setKind(value === "url" ? "url" : "command")}
              />
              <SchemaForm
                key={pastes}
                schema={schema}
                value={server}
                first={FIRST[kind]}
                words={WORDS}
                entries={ENTRIES}
                onChange={setServer}
              />
              <KeysChoice isOn={movesKeys} onChange={setMovesKeys} />
              {problem !== undefined && <Failure text={problem} />}
              <div class="row">
                <Button kind="primary" type="submit" isBusy={busy !== undefined} disabled={name === ""}>
                  Add
                </Button>
                <a class="button" href={linkTo(["servers"])}>
                  Cancel
                </a>
              </div>
            </form>
          )}
        </WhenLoaded>
      </div>
    </>
  )
}

// ---

type Settings = Readonly<Record<string, unknown>>

const FIRST = {
  command: ["command", "args", "env", "cwd", "tags"],
  url: ["url", "headers", "tags"],
} as const

/** The members that most people set. */
const WORDS: Readonly<Record<string, string>> = {
  command: "Program",
  args: "Arguments",
  env: "Environment variables",
  cwd: "Working folder",
  tags: "Tags",
  url: "Address",
  headers: "Headers",
  disabled: "Off",
  disabledTools: "Hidden tools",
}

const IN_VALUES = (
  <>
    <code>{"${NAME}"}</code> stands for a <a href={linkTo(["secrets"])}>secret</a>, or for an environment variable of
    svc.
  </>
)
const ENTRIES: Readonly<Record<string, ComponentChildren>> = {
  args: "One argument per field, without quotes around it. Press Enter to add a field. If you paste several lines, each becomes a field.",
  env: <>A name such as LOG_LEVEL, and its value. {IN_VALUES}</>,
  headers: <>A name such as Authorization, and its value. {IN_VALUES}</>,
}

type EditorProps = {
  readonly written: WrittenServer
  readonly schema: Schema
  readonly isLoading: boolean
  onReload(): void
}

function Editor({ written, schema, isLoading, onReload }: EditorProps) {
  const { api, ui } = useApp()
  const [server, setServer] = useState<Settings>(written.server)
  const [isJson, setJson] = useState(false)
  const [isStale, setStale] = useState(false)
  const [movesKeys, setMovesKeys] = useState(true)
  const [busy, run, problem] = useAction("here")
  const file = useStateOf((state) => state.file)
  const isChanged = JSON.stringify(server) !== JSON.stringify(written.server)
  const path = `/config/servers/${encodeURIComponent(written.name)}`
  const put = async (next: Settings, hash: string) => {
    let warnings: readonly string[] = []
    const isDone = await askForZeroTools(ui, async (confirmZeroTools) => {
      const body = { server: next, confirmZeroTools, moveKeys: movesKeys }
      const answer = await api.send<{ warnings: readonly string[] }>("PUT", path, body, { "if-match": `"${hash}"` })
      warnings = answer.warnings
    })
    if (!isDone) return undefined
    onReload()
    const text = [`${written.name} was saved`, ...warnings].join("\n")
    return { tone: warnings.length > 0 ? "notice" : "good", text } as const
  }
  const save = () =>
    run("save", async () => {
      setStale(false)
      try {
        return await put(server, written.hash)
      } catch (error) {
        if (!(error instanceof Problem) || error.status !== 412) throw error
        // Another tab or an editor has changed the server: both changes stay if they touch different settings.
        const now = await api.get<WrittenServer>(path)
        const merged = mergedSettings(written.server, now.server, server)
        if (merged !== undefined) return await put(merged, now.hash)
        setStale(true)
        return undefined
      }
    })
  const base = FIRST[typeof written.server.url === "string" ? "url" : "command"]
  const first = [...new Set([...base, ...Object.keys(written.server)])]
  return (
    <section class="panel">
      <div class="head">
        <p class="soft">
          {written.section}.{written.name} in <code>{file}</code>. ••• stands for a hidden secret; svc keeps the secret
          unless you replace it.
        </p>
        <Button pressed={isJson} onClick={() => setJson(!isJson)}>
          JSON
        </Button>
      </div>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          void save()
        }}
      >
        {/* The saved server replaces the fields: what is typed meanwhile would be lost. */}
        <div class="form" inert={busy !== undefined || isLoading}>
          {isJson ? (
            <JsonField
              label={`${written.name}, as JSON`}
              rows={18}
              value={server}
              onChange={(next) => setServer((next ?? {}) as Settings)}
            />
          ) : (
            <SchemaForm
              schema={schema}
              value={server}
              first={first}
              words={WORDS}
              entries={ENTRIES}
              onChange={setServer}
            />
          )}
          <KeysChoice isOn={movesKeys} onChange={setMovesKeys} />
        </div>
        {problem !== undefined && <Failure text={problem} />}
        {isStale && (
          <Failure
            text="The server was changed in the meantime, and your change touches the same settings. Reload shows the new settings without your change."
            label="Reload"
            retry={onReload}
          />
        )}
        <div class="row">
          <Button kind="primary" type="submit" isBusy={busy !== undefined} disabled={!isChanged}>
            Save
          </Button>
          <Button disabled={busy !== undefined} onClick={onReload}>
            Reset
          </Button>
        </div>
      </form>
    </section>
  )
}

const KeysChoice = ({ isOn, onChange }: { isOn: boolean; onChange(isOn: boolean): void }) => (
  <label class="check">
    <input type="checkbox" checked={isOn} onChange={({ currentTarget }) => onChange(currentTarget.checked)} />
    Keep keys out of mcp.json: write what looks like a new key into .env
  </label>
)

/** Returns a server whose `command` is split if it is a whole command line and `args` is empty. */
function withWords(server: Settings): Settings {
  const { command, args } = server
  if (typeof command !== "string" || !/^\S+\s+\S/.test(command.trim()) || /["'\\]/.test(command)) return server
  if (Array.isArray(args) && args.length > 0) return server
  const [program, ...rest] = command.trim().split(/\s+/)
  return { ...server, command: program, args: rest }
}

/** Reads the schema of a server from the schema of mcp.json. */
async function serverSchemaFrom(api: ReturnType<typeof useApp>["api"]): Promise<Schema> {
  const { properties } = await api.get<{ properties: Record<string, { additionalProperties: Schema }> }>(
    "/config/schema",
  )
  return properties.mcpServers?.additionalProperties ?? {}
}
