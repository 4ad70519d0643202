/** The registries: search, and installation after the person has reviewed the command. */
import { useEffect, useRef, useState } from "preact/hooks"
import { textOf } from "../api.ts"
import { useApp } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import {
  Breakable,
  Button,
  Choice,
  countText,
  Empty,
  Facts,
  Failure,
  Field,
  Head,
  Search,
  Tags,
  WhenLoaded,
} from "../parts.tsx"
import { goFromHere, goTo, linkTo, type Route } from "../router.ts"
import type { InstallAnswer, RegistryInfo, RegistrySearch } from "../types.ts"

/** The search, or one registry entry. */
export const RegistryView = ({ route }: { route: Route }) =>
  route.path[1] === undefined ? <RegistryList route={route} /> : <Entry key={route.path[1]} name={route.path[1]} />

// ---

const TYPES = ["npm", "pypi", "oci", "nuget", "mcpb", "remote"]

function RegistryList({ route }: { route: Route }) {
  const { api } = useApp()
  const { q = "", type = "" } = route.query
  const query = useSettled(q, 300)
  const loaded = useLoaded(
    () => api.get<RegistrySearch>("/registries/search", { query, type, limit: 50 }),
    [query, type],
  )
  const filter = (change: Readonly<Record<string, string>>) => goTo(["registry"], { ...route.query, ...change }, true)
  return (
    <>
      <Head title="Registry">
        <Search label="Search the registries" value={q} onInput={(value) => filter({ q: value })} />
        <Choice
          label="Type"
          value={type}
          options={[["", "All types"], ...TYPES.map((one) => [one, one] as const)]}
          onChange={(value) => filter({ type: value })}
        />
      </Head>
      <WhenLoaded loaded={loaded}>
        {({ servers, total, warnings }) => (
          <>
            <Warnings texts={warnings} />
            <p class="soft" aria-live="polite">
              {servers.length < total
                ? `The best ${servers.length} of ${countText(total, "server")}`
                : countText(total, "server")}
            </p>
            {servers.length === 0 && <Empty>No server matches.</Empty>}
            <div class="cards">
              {servers.map((entry) => (
                <article key={`${entry.registry} ${entry.name}`} class="panel">
                  <h2>
                    <a href={linkTo(["registry", entry.name])}>{entry.title ?? shortName(entry.name)}</a>
                  </h2>
                  <p class="mono soft">
                    <Breakable text={entry.name} /> {entry.version}
                  </p>
                  <p>{entry.description}</p>
                  <p class="row">
                    <Tags tags={entry.types} />
                    <span class="soft">{entry.registry}</span>
                    {entry.installed && <span class="state good">installed as {entry.installedAs.join(", ")}</span>}
                    {entry.status !== "active" && <span class="state notice">{entry.status}</span>}
                  </p>
                  {entry.status !== "active" && entry.statusMessage !== undefined && <p>{entry.statusMessage}</p>}
                </article>
              ))}
            </div>
          </>
        )}
      </WhenLoaded>
    </>
  )
}

function Entry({ name }: { name: string }) {
  const { api } = useApp()
  const loaded = useLoaded(() => api.get<RegistryInfo>(`/registries/servers/${encodeURIComponent(name)}`), [name])
  return (
    <>
      <Head
        title={
          <>
            <a class="crumb" href={linkTo(["registry"])}>
              Registry /
            </a>{" "}
            {loaded.data?.entry?.title ?? shortName(name)}
          </>
        }
      />
      <WhenLoaded loaded={loaded}>
        {(info) => (
          <>
            <section class="panel">
              <p>{info.entry?.description}</p>
              <Facts
                rows={[
                  ["Name", <code key="name">{info.entry?.name ?? name}</code>],
                  ["Version", info.entry?.version ?? "–"],
                  ["Registry", info.entry?.registry ?? "–"],
                  ["Types", info.entry === undefined ? "–" : <Tags tags={info.entry.types} />],
                  ["Repository", webLink(info.entry?.repository)],
                  ["Web site", webLink(info.entry?.websiteUrl)],
                ]}
              />
              <Warnings texts={info.warnings} />
            </section>
            {info.entry?.installedAs.map((server) => (
              <div key={server} class="note good">
                <p>
                  Installed as <a href={linkTo(["servers", server])}>{server}</a>
                </p>
              </div>
            ))}
            <Installation info={info} />
          </>
        )}
      </WhenLoaded>
    </>
  )
}

type NeededValue = RegistryInfo["required"][number]

/** A plan with the request that it answers. */
type Planned = { readonly request: string; readonly plan: InstallAnswer }

/**
 * Asks for the values, shows the plan as soon as it has them, and installs exactly the plan that it shows: a plan for other
 * values cannot be confirmed.
 */
function Installation({ info }: { info: RegistryInfo }) {
  const { api, live, ui } = useApp()
  const name = info.entry?.name ?? info.serverName
  const [env, setEnv] = useState<Readonly<Record<string, string>>>({})
  const [tags, setTags] = useState("")
  const [bundled, setBundled] = useState<readonly NeededValue[]>([])
  const [planned, setPlanned] = useState<Planned>()
  const [problem, setProblem] = useState<string>()
  // svc must download a bundle before it can plan, so a person asks for that. Other plans appear by themselves.
  const [asked, setAsked] = useState(info.command === undefined ? 0 : 1)
  /** How often the person has tried to install: each time, the first missing value gets the focus. */
  const [tries, setTries] = useState(0)
  const [busy, run] = useAction()
  const form = useRef<HTMLFormElement>(null)
  const request = JSON.stringify({
    serverName: name,
    ...(info.entry === undefined ? {} : { version: info.entry.version }),
    env: Object.fromEntries(Object.entries(env).filter(([, value]) => value !== "")),
    ...(tags.trim() === "" ? {} : { tags: tags.split(/[\s,]+/).filter((tag) => tag !== "") }),
  })
  const settled = useSettled(request, SETTLE_MS)
  const required = [...info.required, ...bundled]
  const isBlank = (one: NeededValue) => (env[one.name] ?? one.default ?? "") === ""
  const missing = required.filter(isBlank)
  const isComplete = missing.length === 0
  const isSettled = settled === request
  const plan = planned?.request === request ? planned.plan : undefined
  const unfilled = plan?.missing ?? []

  useEffect(() => {
    if (asked === 0 || !isComplete || !isSettled) return
    let isCurrent = true
    setProblem(undefined)
    api.send<InstallAnswer>("POST", "/install", JSON.parse(settled)).then(
      (answer) => {
        if (!isCurrent) return
        setPlanned({ request: settled, plan: answer })
        setBundled((before) => [
          ...before,
          ...answer.missing.filter((one) => ![...info.required, ...before].some((known) => known.name === one.name)),
        ])
      },
      (error) => isCurrent && setProblem(textOf(error)),
    )
    return () => {
      isCurrent = false
    }
  }, [settled, isSettled, asked, isComplete])
  useEffect(() => {
    if (tries > 0) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus()
  }, [tries])

  const install = (digest: string) =>
    run("install", async () => {
      const go = goFromHere()
      try {
        const answer = await api.send<InstallAnswer>("POST", "/install", { ...JSON.parse(request), digest })
        const { serverName, state, tools, warnings } = answer
        for (const text of warnings) ui.say("notice", text)
        await live.refresh()
        go(["servers", serverName])
        return `${serverName} is installed: ${state ?? "written"}${tools === undefined ? "" : `, ${countText(tools, "tool")}`}`
      } catch (error) {
        // The plan may be outdated, so the person must see the new one.
        setPlanned(undefined)
        setAsked((before) => before + 1)
        throw error
      }
    })
  const submit = () => {
    if (!isComplete || unfilled.length > 0) setTries(tries + 1)
    else if (plan?.digest !== undefined) void install(plan.digest)
    // Not while the plan for the last change is on its way.
    else if (problem !== undefined || asked === 0) setAsked((before) => before + 1)
  }
  const isWaiting = asked > 0 && isComplete && plan === undefined && problem === undefined
  const set = (variable: string, value: string) => {
    setProblem(undefined)
    setEnv({ ...env, [variable]: value })
  }
  return (
    <form
      ref={form}
      class="panel form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <h2>Install</h2>
      {plan === undefined && info.command !== undefined && (
        <div class="field">
          <p class="soft">svc would run:</p>
          <pre class="code">{info.command}</pre>
        </div>
      )}
      {[...required, ...info.optional].map((one) => (
        <Value
          key={one.name}
          needed={one}
          value={env[one.name]}
          isRequired={required.includes(one)}
          isMissing={
            unfilled.some((other) => other.name === one.name) ||
            (missing.includes(one) && (tries > 0 || env[one.name] !== undefined))
          }
          onInput={(value) => set(one.name, value)}
        />
      ))}
      <Field label="Tags" hint="Separated by spaces; clients and presets select servers by tags.">
        {(id, describedBy) => (
          <input
            id={id}
            aria-describedby={describedBy}
            value={tags}
            onInput={({ currentTarget }) => {
              setProblem(undefined)
              setTags(currentTarget.value)
            }}
          />
        )}
      </Field>
      <div aria-live="polite">
        {plan !== undefined && <Plan plan={plan} />}
        {isWaiting && <p class="soft">Asking svc what would run …</p>}
      </div>
      {problem !== undefined && <Failure text={problem} />}
      <div class="row">
        <Button kind="primary" type="submit" isBusy={busy !== undefined || isWaiting}>
          {asked === 0 ? "Show what would run" : `Install ${planned?.plan.serverName ?? shortName(name)}`}
        </Button>
      </div>
    </form>
  )
}

const SETTLE_MS = 400

type ValueProps = {
  readonly needed: NeededValue
  /** What the person entered; undefined before that. */
  readonly value: string | undefined
  readonly isRequired: boolean
  readonly isMissing: boolean
  onInput(value: string): void
}

/** A value that the server takes. */
function Value({ needed, value, isRequired, isMissing, onInput }: ValueProps) {
  const { name, description, secret, choices, default: preset } = needed
  const about = [description, secret ? "a secret; svc keeps it in .env" : undefined].filter(Boolean).join("; ")
  const hint = isMissing ? (
    <>
      <span class="problem">{value ? "Not a possible value." : "Required."}</span> {about}
    </>
  ) : (
    about || undefined
  )
  // Without a value, svc uses the default: "not set" would be no choice.
  const unset = isRequired ? "choose …" : "not set"
  const options = choices && [...new Set(preset === undefined ? ["", ...choices] : [preset, ...choices])]
  return (
    <Field label={isRequired ? `${name} (required)` : name} hint={hint}>
      {(id, describedBy) => {
        const common = { id, "aria-describedby": describedBy, "aria-invalid": isMissing, "aria-required": isRequired }
        return options === undefined ? (
          <input
            {...common}
            {...(secret ? { type: "password" } : {})}
            autocomplete="off"
            spellcheck={false}
            placeholder={preset ?? ""}
            value={value ?? ""}
            onInput={({ currentTarget }) => onInput(currentTarget.value)}
          />
        ) : (
          <select
            {...common}
            value={value ?? preset ?? ""}
            onChange={({ currentTarget }) => onInput(currentTarget.value)}
          >
            {options.map((choice) => (
              <option key={choice} value={choice}>
                {choice || unset}
              </option>
            ))}
          </select>
        )
      }}
    </Field>
  )
}

/** The plan that the person confirms: the complete command, and the access of the process. */
const Plan = ({ plan }: { plan: InstallAnswer }) => (
  <section class="note notice" aria-label="What would run">
    <div class="stack">
      <h3>svc would write the server {plan.serverName} and run this as your user</h3>
      <pre class="code">{plan.command}</pre>
      <p>Source: {plan.source}.</p>
      {plan.inherited !== undefined && <p>{plan.inherited}</p>}
      <p>
        {plan.variables.length === 0
          ? "It gets no secrets."
          : `Secrets go into .env, as: ${plan.variables.join(", ")}.`}{" "}
        The process has all permissions of the user that runs svc: files, network, other programs.
      </p>
      <Warnings texts={plan.warnings} />
      {plan.missing.length > 0 && (
        <p class="error-text">Still missing: {plan.missing.map(({ name }) => name).join(", ")}</p>
      )}
    </div>
  </section>
)

/** Returns the last part of a name in a registry. */
const shortName = (name: string): string => name.split("/").at(-1) ?? name

const Warnings = ({ texts }: { texts: readonly string[] }) => (
  <>
    {texts.map((text) => (
      <div key={text} class="note notice">
        <p>{text}</p>
      </div>
    ))}
  </>
)

/** Returns a link from a registry entry, if it is a web address. */
const webLink = (url: string | undefined) =>
  url !== undefined && /^https?:\/\//.test(url) ? (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {url}
    </a>
  ) : undefined
