/** The prompts and resources of a server, to read and to try. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, Empty, Failure, Field, Json, latencyText, WhenLoaded } from "../parts.tsx"
import type { OfferedPrompt, OfferedResource } from "../types.ts"

/** The prompts of a server. */
export function PromptPane({ server }: { server: string }) {
  const { api } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const loaded = useLoaded(() => api.all<OfferedPrompt>("/prompts", { server }), [server, catalog])
  return (
    <WhenLoaded loaded={loaded}>
      {(prompts) =>
        prompts.length === 0 ? (
          <Empty>{server} offers no prompts.</Empty>
        ) : (
          prompts.map((prompt) => <Prompt key={prompt.name} server={server} prompt={prompt} />)
        )
      }
    </WhenLoaded>
  )
}

/** The resources and resource templates of a server. */
export function ResourcePane({ server }: { server: string }) {
  const { api } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const loaded = useLoaded(async () => {
    const [resources, templates] = await Promise.all([
      api.all<OfferedResource>("/resources", { server }),
      api.all<OfferedResource & { uriTemplate: string }>("/resource-templates", { server }),
    ])
    return [...resources, ...templates.map((one) => ({ ...one, uri: one.uriTemplate }))]
  }, [server, catalog])
  return (
    <WhenLoaded loaded={loaded}>
      {(resources) =>
        resources.length === 0 ? (
          <Empty>{server} offers no resources.</Empty>
        ) : (
          resources
            .slice(0, SHOWN)
            .map((one, at) => <Resource key={`${one.uri} ${at}`} server={server} resource={one} />)
        )
      }
    </WhenLoaded>
  )
}

// ---

/** More resources than a person looks through are slow in a browser. */
const SHOWN = 200

type Answer = { readonly result: Readonly<Record<string, unknown>>; readonly ms: number }

function Prompt({
  server,
  prompt: { name, title, description, arguments: args = [] },
}: {
  server: string
  prompt: OfferedPrompt
}) {
  const { api } = useApp()
  const [values, setValues] = useState<Readonly<Record<string, string>>>({})
  const [answer, setAnswer] = useState<Answer>()
  const [busy, run, problem] = useAction("here")
  const get = () =>
    run("get", async () => {
      const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""))
      setAnswer(await api.send<Answer>("POST", "/prompts/get", { server, name, arguments: given }))
      return undefined
    })
  return (
    <section class="panel" aria-label={name}>
      <h2>{title ?? name}</h2>
      {title !== undefined && <code>{name}</code>}
      <p class="prose-text">{description}</p>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          void get()
        }}
      >
        {args.map((arg) => (
          <Field
            key={arg.name}
            label={arg.required === true ? `${arg.name} (required)` : arg.name}
            hint={arg.description}
          >
            {(id, describedBy) => (
              <input
                id={id}
                required={arg.required === true}
                aria-describedby={describedBy}
                value={values[arg.name] ?? ""}
                onInput={({ currentTarget }) => setValues({ ...values, [arg.name]: currentTarget.value })}
              />
            )}
          </Field>
        ))}
        <div class="row">
          <Button type="submit" isBusy={busy !== undefined} label={`Get ${name}`}>
            Get
          </Button>
        </div>
      </form>
      {problem !== undefined && <Failure text={problem} />}
      {answer !== undefined && <Contents answer={answer} parts={messagesOf(answer)} />}
    </section>
  )
}

function Resource({
  server,
  resource: { uri, name, title, description, mimeType },
}: {
  server: string
  resource: OfferedResource
}) {
  const { api } = useApp()
  const [address, setAddress] = useState(uri)
  const [answer, setAnswer] = useState<Answer>()
  const [busy, run, problem] = useAction("here")
  const isTemplate = uri.includes("{")
  const read = () =>
    run("read", async () => {
      setAnswer(await api.send<Answer>("POST", "/resources/read", { server, uri: address }))
      return undefined
    })
  return (
    <section class="panel" aria-label={uri}>
      <div class="head">
        <h2>{title ?? name ?? uri}</h2>
        {mimeType !== undefined && <span class="tag">{mimeType}</span>}
      </div>
      <p class="prose-text">{description}</p>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          void read()
        }}
      >
        {isTemplate ? (
          <Field label="Address" hint={`Replace the parts in braces: ${uri}`}>
            {(id, describedBy) => (
              <input
                id={id}
                required
                aria-describedby={describedBy}
                value={address}
                onInput={({ currentTarget }) => setAddress(currentTarget.value)}
              />
            )}
          </Field>
        ) : (
          <code>{uri}</code>
        )}
        <div class="row">
          <Button
            type="submit"
            isBusy={busy !== undefined}
            label={`Read ${uri}`}
            disabled={isTemplate && address === uri}
          >
            Read
          </Button>
        </div>
      </form>
      {problem !== undefined && <Failure text={problem} />}
      {answer !== undefined && <Contents answer={answer} parts={contentsOf(answer)} />}
    </section>
  )
}

type Part = { readonly head: string; readonly text: string | undefined; readonly whole: unknown }

const Contents = ({ answer, parts }: { answer: Answer; parts: readonly Part[] }) => (
  <section aria-label="Answer" aria-live="polite">
    <p class="soft">Answered in {latencyText(answer.ms)}</p>
    {parts.map(({ head, text, whole }, at) => (
      <div key={`${at} ${head}`}>
        <h3>{head}</h3>
        {text === undefined ? <Json value={whole} /> : <pre class="code">{text.slice(0, MAX_TEXT)}</pre>}
        {text !== undefined && text.length > MAX_TEXT && <p class="soft">… {text.length - MAX_TEXT} more characters</p>}
      </div>
    ))}
  </section>
)

const MAX_TEXT = 100_000

type Message = { readonly role?: unknown; readonly content?: { readonly type?: unknown; readonly text?: unknown } }

const messagesOf = ({ result }: Answer): readonly Part[] =>
  (Array.isArray(result.messages) ? (result.messages as Message[]) : []).map(({ role, content }) => ({
    head: String(role),
    text: content?.type === "text" ? String(content.text) : undefined,
    whole: content,
  }))

const contentsOf = ({ result }: Answer): readonly Part[] =>
  (Array.isArray(result.contents) ? (result.contents as Readonly<Record<string, unknown>>[]) : []).map((one) => ({
    head: String(one.uri),
    text: typeof one.text === "string" ? one.text : undefined,
    whole: typeof one.blob === "string" ? { ...one, blob: `${one.blob.slice(0, 80)}… (base64)` } : one,
  }))
