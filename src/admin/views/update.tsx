/** The version of a server that came from a registry, and its update: what would run and change, and a button that does exactly this. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, Facts, Failure, Field, Table } from "../parts.tsx"
import type { UpdateAnswer, WrittenServer } from "../types.ts"

/** Shows where a server came from, and looks for a newer version; nothing for other servers. */
export function UpdatePanel({ name }: { name: string }) {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const loaded = useLoaded(
    () => api.get<WrittenServer>(`/config/servers/${encodeURIComponent(name)}`),
    [name, configuration],
  )
  const [env, setEnv] = useState<Readonly<Record<string, string>>>({})
  const [plan, setPlan] = useState<UpdateAnswer>()
  const [busy, run, problem] = useAction("here")
  const origin = loaded.data?.server.installedFrom
  if (!isOrigin(origin)) return null
  const ask = (digest?: string) => {
    const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""))
    return api.send<UpdateAnswer>("POST", "/update", { serverName: name, env: given, digest })
  }
  const look = () =>
    run("look", async () => {
      setPlan(await ask())
      return undefined
    })
  const update = (digest: string) =>
    run("update", async () => {
      try {
        const { to, warnings } = await ask(digest)
        setPlan(undefined)
        return { tone: warnings.length > 0 ? "notice" : "good", text: [`${name} is now ${to}`, ...warnings].join("\n") }
      } catch (error) {
        // The plan may be outdated, so the person must see the new one.
        setPlan(undefined)
        throw error
      }
    })
  const isNews = plan !== undefined && plan.from !== plan.to
  return (
    <section class="panel" aria-label="Version">
      <Facts
        rows={[
          ["Installed from", `${origin.registry}: ${origin.name}`],
          ["Version", origin.version],
        ]}
      />
      {plan !== undefined && !isNews && <p>This is the latest version.</p>}
      {isNews && <Plan plan={plan} env={env} onInput={(variable, value) => setEnv({ ...env, [variable]: value })} />}
      {problem !== undefined && <Failure text={problem} />}
      <div class="row">
        {isNews && plan.missing.length === 0 && plan.digest !== undefined && (
          <Button kind="primary" isBusy={busy === "update"} onClick={() => void update(plan.digest ?? "")}>
            Update to {plan.to}
          </Button>
        )}
        <Button isBusy={busy === "look"} onClick={() => void look()}>
          {isNews && plan.missing.length > 0 ? "Show what would run" : "Look for an update"}
        </Button>
      </div>
    </section>
  )
}

// ---

type PlanProps = {
  readonly plan: UpdateAnswer
  readonly env: Readonly<Record<string, string>>
  onInput(variable: string, value: string): void
}

const Plan = ({ plan, env, onInput }: PlanProps) => (
  <div class="stack" aria-live="polite">
    <h2>Version {plan.to} is available. svc would run this as your user:</h2>
    <pre class="code">{plan.command}</pre>
    {[plan.bundle, plan.inherited, ...plan.warnings].map((text) => text !== undefined && <p key={text}>{text}</p>)}
    {plan.missing.map(({ name, description }) => (
      <Field key={name} label={`${name} (required)`} hint={description}>
        {(id, describedBy) => (
          <input
            id={id}
            aria-describedby={describedBy}
            autocomplete="off"
            value={env[name] ?? ""}
            onInput={({ currentTarget }) => onInput(name, currentTarget.value)}
          />
        )}
      </Field>
    ))}
    {plan.changes.length > 0 && (
      <Table
        caption="What changes"
        items={plan.changes}
        keyOf={({ key }) => key}
        columns={[
          { title: "Key", kind: "name", draw: ({ key }) => <code>{key}</code> },
          { title: "Now", draw: ({ from = "" }) => <code>{from}</code> },
          { title: "After the update", draw: ({ to = "" }) => <code>{to}</code> },
        ]}
      />
    )}
  </div>
)

type Origin = { readonly registry: string; readonly name: string; readonly version: string }

const isOrigin = (value: unknown): value is Origin =>
  typeof value === "object" && value !== null && "registry" in value && "name" in value && "version" in value
