/** The registries: search, and installation after the person has reviewed the command. */
import { useState } from "preact/hooks"
import { textOf } from "../api.ts"
import { useApp } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import { Button, Choice, countText, Empty, Facts, Failure, Field, Head, Search, Tags, WhenLoaded } from "../parts.tsx"
import { goTo, linkTo, type Route } from "../router.ts"
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
                    <a href={linkTo(["registry", entry.name])}>{entry.title ?? entry.name}</a>
                  </h2>
                  <p class="mono soft">
                    {entry.name} {entry.version}
                  </p>
                  <p>{entry.description}</p>
                  <p class="row">
                    <Tags tags={entry.types} />
                    <span class="soft">{entry.registry}</span>
                    {entry.installed && <span class="state good">installed as {entry.installedAs.join(", ")}</span>}
                    {entry.status !== "active" && <span class="state notice">{entry.status}</span>}
                  </p>
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
            {loaded.data?.entry?.title ?? name}
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

/** Asks for the values, shows the command, and installs exactly this command. */
function Installation({ info }: { info: RegistryInfo }) {
  const { api, ui } = useApp()
  const name = info.entry?.name ?? info.serverName
  const [env, setEnv] = useState<Readonly<Record<string, string>>>({})
  const [tags, setTags] = useState("")
  const [plan, setPlan] = useState<InstallAnswer>()
  const [problem, setProblem] = useState<string>()
  const [busy, run] = useAction()
  const request = () => ({
    serverName: name,
    ...(info.entry === undefined ? {} : { version: info.entry.version }),
    env: Object.fromEntries(Object.entries(env).filter(([, value]) => value !== "")),
    ...(tags.trim() === "" ? {} : { tags: tags.split(/[\s,]+/).filter((tag) => tag !== "") }),
  })
  const review = () =>
    run("review", async () => {
      setProblem(undefined)
      try {
        setPlan(await api.send<InstallAnswer>("POST", "/install", request()))
      } catch (error) {
        setPlan(undefined)
        setProblem(textOf(error))
      }
      return undefined
    })
  const install = (digest: string) =>
    run("install", async () => {
      try {
        const { serverName, state, tools, warnings } = await api.send<InstallAnswer>("POST", "/install", {
          ...request(),
          digest,
        })
        for (const text of warnings) ui.say("notice", text)
        goTo(["servers", serverName])
        return `${serverName} is installed: ${state ?? "written"}${tools === undefined ? "" : `, ${countText(tools, "tool")}`}`
      } catch (error) {
        // The reviewed plan may be outdated, so the person must review the new one.
        setPlan(undefined)
        throw error
      }
    })
  const fields = [...info.required, ...info.optional]
  return (
    <form
      class="panel form"
      onSubmit={(event) => {
        event.preventDefault()
        void review()
      }}
    >
      <h2>Install</h2>
      {info.command !== undefined && (
        <div class="field">
          <p class="soft">svc would run:</p>
          <pre class="code">{info.command}</pre>
        </div>
      )}
      {fields.map(({ name: variable, description, secret, choices, default: preset }) => (
        <Field
          key={variable}
          label={info.required.some((one) => one.name === variable) ? `${variable} (required)` : variable}
          hint={
            [description, secret ? "a secret; svc keeps it in .env" : undefined].filter(Boolean).join("; ") || undefined
          }
        >
          {(id, describedBy) =>
            choices === undefined ? (
              <input
                id={id}
                {...(secret ? { type: "password" } : {})}
                autocomplete="off"
                spellcheck={false}
                placeholder={preset ?? ""}
                aria-describedby={describedBy}
                value={env[variable] ?? ""}
                onInput={({ currentTarget }) => {
                  setEnv({ ...env, [variable]: currentTarget.value })
                  setPlan(undefined)
                }}
              />
            ) : (
              <select
                id={id}
                aria-describedby={describedBy}
                value={env[variable] ?? ""}
                onChange={({ currentTarget }) => {
                  setEnv({ ...env, [variable]: currentTarget.value })
                  setPlan(undefined)
                }}
              >
                {["", ...choices].map((choice) => (
                  <option key={choice} value={choice}>
                    {choice === "" ? "not set" : choice}
                  </option>
                ))}
              </select>
            )
          }
        </Field>
      ))}
      <Field label="Tags" hint="Separated by spaces; clients and presets select servers by tags.">
        {(id, describedBy) => (
          <input
            id={id}
            aria-describedby={describedBy}
            value={tags}
            onInput={({ currentTarget }) => {
              setTags(currentTarget.value)
              setPlan(undefined)
            }}
          />
        )}
      </Field>
      {problem !== undefined && <Failure text={problem} />}
      {plan === undefined ? (
        <div class="row">
          <Button kind="primary" type="submit" isBusy={busy !== undefined}>
            Show what would run
          </Button>
        </div>
      ) : (
        <Plan plan={plan} isBusy={busy !== undefined} onInstall={(digest) => void install(digest)} />
      )}
    </form>
  )
}

type PlanProps = { readonly plan: InstallAnswer; readonly isBusy: boolean; onInstall(digest: string): void }

/** The plan that the person confirms: the complete command, and the access of the process. */
function Plan({ plan, isBusy, onInstall }: PlanProps) {
  const { digest, missing } = plan
  return (
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
        {missing.length > 0 && <p class="error-text">Still missing: {missing.map(({ name }) => name).join(", ")}</p>}
        <Button
          kind="primary"
          isBusy={isBusy}
          disabled={digest === undefined || missing.length > 0}
          onClick={() => digest !== undefined && onInstall(digest)}
        >
          Install {plan.serverName}
        </Button>
      </div>
    </section>
  )
}

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
