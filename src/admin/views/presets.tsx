/** Presets: named parts of what svc offers, made by ticking servers and tools. */
import { Fragment } from "preact"
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { Copy } from "../copy.tsx"
import { useAction, useLoaded } from "../hooks.ts"
import {
  Button,
  Choice,
  countText,
  Empty,
  Failure,
  Field,
  Head,
  numberText,
  Search,
  Table,
  WhenLoaded,
} from "../parts.tsx"
import {
  type Changes,
  keyOfTool,
  presetName,
  rulesAfter,
  rulesFor,
  type Ticked,
  withChanges,
} from "../preset-choice.ts"
import { goFromHere, linkTo, type Route } from "../router.ts"
import type { Preset, Tool } from "../types.ts"
import { wordFilter } from "../words.ts"
import { tokensOf } from "./tool-facts.tsx"

/** The list of presets, a new preset (`#/presets/+`), or one preset. */
export function PresetsView({ route }: { route: Route }) {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const catalog = useStateOf((state) => state.catalog)
  const presets = useLoaded(() => api.all<Preset>("/presets"), [configuration])
  const tools = useLoaded(() => api.all<Tool>("/tools", { tokens: true }), [configuration, catalog])
  const name = route.path[1]
  if (name === undefined) return <PresetList loaded={presets} />
  return (
    <>
      <Head
        title={
          <>
            <a class="crumb" href={linkTo(["presets"])}>
              Presets /
            </a>{" "}
            {name === NEW ? "New preset" : name}
          </>
        }
      />
      <WhenLoaded loaded={presets}>
        {(all) => (
          <WhenLoaded loaded={tools}>
            {(known) => {
              const preset = all.find((one) => one.name === name)
              return preset === undefined && name !== NEW ? (
                <Empty>
                  No preset is named {name}. <a href={linkTo(["presets"])}>All presets</a>
                </Empty>
              ) : (
                <PresetEditor key={name} preset={preset} tools={known} />
              )
            }}
          </WhenLoaded>
        )}
      </WhenLoaded>
    </>
  )
}

// ---

/** The route of a new preset: no preset has this name. */
const NEW = "+"

function PresetList({ loaded }: { loaded: Parameters<typeof WhenLoaded<readonly Preset[]>>[0]["loaded"] }) {
  const { api, ui } = useApp()
  const status = useStateOf((state) => state.status)
  const [, run] = useAction()
  const remove = async (name: string) => {
    const isAgreed = await ui.ask({
      title: `Delete the preset ${name}?`,
      text: "svc will refuse clients that connect with this preset.",
      action: "Delete",
      isDangerous: true,
    })
    if (!isAgreed) return
    await run("delete", async () => {
      await api.send("DELETE", `/presets/${encodeURIComponent(name)}`)
      loaded.reload()
      return `${name} was deleted`
    })
  }
  return (
    <>
      <Head title="Presets">
        <a class="button primary" href={linkTo(["presets", NEW])}>
          Create a preset
        </a>
      </Head>
      <WhenLoaded loaded={loaded}>
        {(presets) =>
          presets.length === 0 ? (
            <Empty>
              No presets yet. A preset gives a client only the servers and tools that you tick: fewer tokens, and
              nothing that it should not use.
            </Empty>
          ) : (
            <Table
              caption="Presets"
              items={presets}
              keyOf={({ name }) => name}
              columns={[
                {
                  title: "Preset",
                  kind: "name",
                  draw: ({ name, description }) => (
                    <>
                      <a href={linkTo(["presets", name])}>{name}</a>
                      <span class="sub">{description}</span>
                      <Copy
                        text={`${status?.endpoint ?? "/mcp"}?preset=${encodeURIComponent(name)}`}
                        label={`the address of ${name}`}
                      />
                    </>
                  ),
                },
                { title: "Servers", kind: "wide", draw: ({ servers: selected }) => <Selected names={selected} /> },
                {
                  title: "Controls",
                  draw: ({ name }) => (
                    <div class="row">
                      <a
                        class="button"
                        href={linkTo(["clients"], { preset: name })}
                        aria-label={`Connect a client to ${name}`}
                      >
                        Connect a client
                      </a>
                      <a class="button" href={linkTo(["presets", name])} aria-label={`Edit ${name}`}>
                        Edit
                      </a>
                      <Button label={`Delete ${name}`} onClick={() => void remove(name)}>
                        Delete
                      </Button>
                    </div>
                  ),
                },
              ]}
            />
          )
        }
      </WhenLoaded>
    </>
  )
}

type Names = Readonly<Record<string, string>>
/** The settings of a preset besides its tools and their names. */
type Settings = {
  readonly description: string
  readonly filter: string
  readonly prefix: string
  readonly new: "show" | "hold"
  readonly readOnly: boolean
  readonly tools: string
}
type Preview = { readonly entries: readonly { readonly included: readonly { readonly entry: string }[] }[] }

/** Creates or changes a preset. The boxes show what it includes now, whatever its rules are. */
function PresetEditor({ preset, tools: known }: { preset: Preset | undefined; tools: readonly Tool[] }) {
  const { api } = useApp()
  // No client sees a tool that is hidden, whatever its preset says.
  const tools = known.filter(({ gone, disabled }) => gone !== true && !disabled)
  const included = useLoaded(async (): Promise<Ticked> => {
    if (preset === undefined) return new Set()
    const { name: _, servers: __, description: ___, tokens: ____, ...rules } = preset
    const { entries } = await api.send<Preview>("POST", "/presets/preview", rulesOf(rules))
    return new Set(entries.flatMap((one) => one.included.map(({ entry }) => entry)))
  }, [preset, tools.length])
  return (
    <WhenLoaded loaded={included}>
      {(before) => <PresetForm key={preset?.name ?? NEW} preset={preset} tools={tools} before={before} />}
    </WhenLoaded>
  )
}

type PresetFormProps = { readonly preset: Preset | undefined; readonly tools: readonly Tool[]; readonly before: Ticked }

function PresetForm({ preset, tools, before }: PresetFormProps) {
  const { api } = useApp()
  const [typed, setTyped] = useState(preset?.name ?? "")
  // Only what a person has changed: the rest follows the preset, which another tab may change.
  const [changed, setChanged] = useState<Partial<Settings>>({})
  const [ticks, setTicks] = useState<Changes>(new Map())
  const [names, setNames] = useState<Names>({})
  const [text, setText] = useState("")
  const [busy, run, problem] = useAction("here")
  const servers = useStateOf((state) => state.servers).map((server) => server.name)
  const current: Settings = {
    description: preset?.description ?? "",
    filter: preset?.filter ?? "",
    prefix: preset?.prefix ?? "",
    new: preset?.new ?? "show",
    readOnly: preset?.readOnly === true,
    tools: preset?.tools ?? "",
  }
  const { description, filter, prefix, new: added, readOnly, tools: listing } = { ...current, ...changed }
  const change = (settings: Partial<Settings>) => setChanged({ ...changed, ...settings })
  const allNames = { ...preset?.names, ...names }
  const name = preset?.name ?? presetName(typed)
  const ticked = withChanges(before, ticks)
  const chosen = tools.filter((tool) => ticked.has(keyOfTool(tool)))
  const tokens = chosen.reduce((sum, tool) => sum + tokensOf(tool), 0)
  const all = tools.reduce((sum, tool) => sum + tokensOf(tool), 0)
  const save = async () => {
    const rules = () => {
      if (preset === undefined) return { ...rulesFor(tools, ticked), deny: [] }
      return [...ticks].some(([key, isTicked]) => before.has(key) !== isTicked)
        ? rulesAfter(preset, tools, before, ticks, servers)
        : {}
    }
    const { tools: listed = "", ...settings } = Object.fromEntries(
      Object.entries(changed).filter(([key, value]) => value !== current[key as keyof Settings]),
    ) as Partial<Settings>
    const body = {
      ...rules(),
      ...settings,
      ...(Object.keys(names).length === 0
        ? {}
        : { names: Object.fromEntries(Object.entries(allNames).filter(([, value]) => value !== "")) }),
      ...(added === "hold" && current.new !== "hold" ? { approved: chosen.map(keyOfTool) } : {}),
      ...(listed === "" ? {} : { tools: listed }),
    }
    const go = goFromHere()
    const isSaved = await run("save", async () => {
      await api.send("PUT", `/presets/${encodeURIComponent(name)}`, preset === undefined ? withValues(body) : body)
      return `${name} was saved`
    })
    if (isSaved) go(["presets"])
  }
  const hasWords = wordFilter(text)
  const shown = tools.filter((tool) => hasWords(`${tool.server} ${tool.name} ${tool.description ?? ""}`))
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <section class="panel">
        {preset === undefined && (
          <Field
            label="Name"
            hint={name !== typed && name !== "" ? `svc will save it as ${name}` : "It becomes part of the address."}
          >
            {(id, describedBy) => (
              <input
                id={id}
                required
                aria-describedby={describedBy}
                value={typed}
                onInput={({ currentTarget }) => setTyped(currentTarget.value)}
              />
            )}
          </Field>
        )}
        <Field label="Description">
          {(id) => (
            <input
              id={id}
              value={description}
              onInput={({ currentTarget }) => change({ description: currentTarget.value })}
            />
          )}
        </Field>
      </section>
      <h2>Servers and tools</h2>
      {tools.length === 0 && (
        <Empty>
          svc knows no tools yet. <a href={linkTo(["servers", "add"])}>Add a server</a> first.
        </Empty>
      )}
      <p class="soft">Tools that you have hidden are left out: no client sees them.</p>
      {tools.length > 0 && <Search label="Search tools" value={text} onInput={setText} />}
      {[...Map.groupBy(shown, ({ server }) => server)].map(([server, own]) => (
        <ServerTicks
          key={server}
          server={server}
          tools={own}
          ticked={ticked}
          names={allNames}
          isOpen={text !== ""}
          onTick={(keys, isTicked) => setTicks(new Map([...ticks, ...keys.map((key) => [key, isTicked] as const)]))}
          onName={(key, value) => setNames({ ...names, [key]: value })}
        />
      ))}
      <details class="panel">
        <summary>More settings</summary>
        <Choice
          label="Names of tools"
          isBare={false}
          value={prefix}
          options={[
            ["", "With the name of the server in front"],
            ["none", "Without the name of the server"],
            ...(prefix === "" || prefix === "none" ? [] : [[prefix, `With ${prefix} in front`] as const]),
          ]}
          onChange={(value) => change({ prefix: value })}
        />
        <Choice
          label="What clients see in the list of tools"
          isBare={false}
          value={listing}
          options={[
            ["", preset === undefined ? "The default of svc serve" : "Unchanged"],
            ["all", "All tools"],
            ["search", "A search tool, in place of the list"],
          ]}
          onChange={(value) => change({ tools: value })}
        />
        <label class="check">
          <input
            type="checkbox"
            checked={readOnly}
            onChange={({ currentTarget }) => change({ readOnly: currentTarget.checked })}
          />
          Only tools that are marked as read-only
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={added === "hold"}
            onChange={({ currentTarget }) => change({ new: currentTarget.checked ? "hold" : "show" })}
          />
          Hold new tools back until they are approved
        </label>
        <Field label="Tags" hint="Optional: an expression over the tags of servers, such as: web and not slow.">
          {(id, describedBy) => (
            <input
              id={id}
              spellcheck={false}
              aria-describedby={describedBy}
              value={filter}
              onInput={({ currentTarget }) => change({ filter: currentTarget.value })}
            />
          )}
        </Field>
      </details>
      <div class="sticky">
        {problem !== undefined && <Failure text={problem} />}
        <p aria-live="polite">
          <strong>
            {countText(chosen.length, "tool")}, about {numberText(tokens)} tokens
          </strong>{" "}
          <span class="soft">
            of {numberText(tools.length)} tools with {numberText(all)} tokens
          </span>
        </p>
        <a class="button" href={linkTo(["presets"])}>
          Cancel
        </a>
        <Button
          kind="primary"
          type="submit"
          isBusy={busy !== undefined}
          disabled={name === "" || (chosen.length === 0 && filter === "" && !readOnly)}
        >
          Save
        </Button>
      </div>
    </form>
  )
}

type ServerTicksProps = {
  readonly server: string
  readonly tools: readonly Tool[]
  readonly ticked: Ticked
  readonly names: Names
  readonly isOpen: boolean
  onTick(keys: readonly string[], isTicked: boolean): void
  onName(key: string, name: string): void
}

/** One server with a box for all of its tools, and its tools below. */
function ServerTicks({ server, tools, ticked, names, isOpen, onTick, onName }: ServerTicksProps) {
  const own = tools.filter((tool) => ticked.has(keyOfTool(tool)))
  const tokens = own.reduce((sum, tool) => sum + tokensOf(tool), 0)
  return (
    <section class="panel ticks" aria-label={server}>
      <input
        type="checkbox"
        aria-label={`All tools of ${server}`}
        checked={own.length > 0 && own.length === tools.length}
        indeterminate={own.length > 0 && own.length < tools.length}
        onChange={({ currentTarget }) => onTick(tools.map(keyOfTool), currentTarget.checked)}
      />
      <details open={isOpen || (own.length > 0 && own.length < tools.length)}>
        <summary>
          <strong>{server}</strong>{" "}
          <span class="soft">
            {own.length} of {countText(tools.length, "tool")}
            {own.length > 0 && `, about ${numberText(tokens)} tokens`}
          </span>
        </summary>
        {tools.map((tool) => {
          const key = keyOfTool(tool)
          return (
            <div key={key} class="tick">
              <label class="check">
                <input
                  type="checkbox"
                  checked={ticked.has(key)}
                  onChange={({ currentTarget }) => onTick([key], currentTarget.checked)}
                />
                <span>
                  {tool.name} <span class="soft">{numberText(tokensOf(tool))} tokens</span>
                  <span class="sub clamp">{tool.description}</span>
                </span>
              </label>
              {ticked.has(key) && (
                <input
                  aria-label={`Name of ${tool.name} for clients`}
                  placeholder="Rename (optional)"
                  spellcheck={false}
                  value={names[key] ?? ""}
                  onInput={({ currentTarget }) => onName(key, currentTarget.value)}
                />
              )}
            </div>
          )
        })}
      </details>
    </section>
  )
}

/** Returns the members of rules that the preview accepts, without those that are undefined. */
const rulesOf = (rules: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(Object.entries(rules).filter(([key, value]) => value !== undefined && RULES.has(key)))
const RULES: ReadonlySet<string> = new Set([
  "filter",
  "matches",
  "allow",
  "deny",
  "readOnly",
  "new",
  "approved",
  "limits",
  "names",
  "prefix",
  "separator",
])

/** Returns the members that say something: a new preset has no others. */
const withValues = (body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(body).filter(
      ([key, value]) =>
        value !== "" &&
        value !== false &&
        !(key === "new" && value === "show") &&
        !(typeof value === "object" && value !== null && Object.keys(value).length === 0),
    ),
  )

const Selected = ({ names }: { names: readonly string[] }) =>
  names.length === 0 ? (
    <span class="soft">none</span>
  ) : (
    names.map((name, at) => (
      <Fragment key={name}>
        {at > 0 && ", "}
        <a href={linkTo(["servers", name])}>{name}</a>
      </Fragment>
    ))
  )
