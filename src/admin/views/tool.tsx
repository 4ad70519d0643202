/** One tool: the description for clients, the server's own description, and a form to call it. */
import { useEffect, useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { defaultsOf, exampleOf, isSchema, type Schema } from "../json-schema.ts"
import { Button, countText, Facts, Failure, Field, Head, Json, numberText, WhenLoaded } from "../parts.tsx"
import { type CallResult, Result } from "../result.tsx"
import { linkTo } from "../router.ts"
import { focusMissing, isForm, JsonField, SchemaForm } from "../schema-form.tsx"
import type { Tool } from "../types.ts"
import { askForZeroTools } from "../zero-tools.ts"
import { ToolAsks } from "./tool-asks.tsx"
import { ToolState, tokensOf } from "./tool-facts.tsx"

/** A tool, identified by the name that clients see. */
export function ToolView({ name }: { name: string }) {
  const { api } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const configuration = useStateOf((state) => state.configuration)
  const loaded = useLoaded(
    () => api.get<Tool>(`/tools/${encodeURIComponent(name)}`, { tokens: true }),
    [name, catalog, configuration],
  )
  const { data: tool } = loaded
  useEffect(() => {
    if (tool !== undefined) document.title = `${tool.name} · svc`
  }, [tool?.name])
  return (
    <>
      <Head
        title={
          tool === undefined ? (
            name
          ) : (
            <>
              <a class="crumb" href={linkTo(["servers", tool.server, "tools"])}>
                {tool.server} /
              </a>{" "}
              {tool.name}
            </>
          )
        }
      >
        {tool !== undefined && <Visibility tool={tool} onChanged={loaded.reload} />}
      </Head>
      <WhenLoaded loaded={loaded}>
        {(shown) => (
          <>
            <Description tool={shown} onChanged={loaded.reload} />
            <TryIt tool={shown} />
            <Definition tool={shown} />
          </>
        )}
      </WhenLoaded>
    </>
  )
}

// ---

type ToolProps = { readonly tool: Tool; onChanged(): void }

function Visibility({ tool, onChanged }: ToolProps) {
  const { api, ui } = useApp()
  const [busy, run] = useAction()
  const toggle = () =>
    run("toggle", async () => {
      const changes = [{ server: tool.server, tool: tool.name, disabled: !tool.disabled }]
      const isDone = await askForZeroTools(ui, (confirmZeroTools) =>
        api.send("PATCH", "/tools", { changes, confirmZeroTools }),
      )
      onChanged()
      return isDone ? `${tool.name} is ${tool.disabled ? "shown to" : "hidden from"} clients` : undefined
    })
  return (
    <>
      <ToolState tool={tool} />
      <Button isBusy={busy !== undefined} onClick={() => void toggle()}>
        {tool.disabled ? "Show" : "Hide"}
      </Button>
    </>
  )
}

/** The description that clients see, beside the server's own. */
function Description({ tool, onChanged }: ToolProps) {
  const { api } = useApp()
  // The draft keeps what the person typed when the text is changed elsewhere.
  const [draft, setDraft] = useState<{ readonly text: string; readonly from: string | undefined }>()
  const text = draft?.text ?? tool.description ?? ""
  const isStale = draft !== undefined && draft.from !== tool.description && draft.text !== tool.description
  useEffect(() => {
    if (draft?.text === tool.description) setDraft(undefined)
  }, [tool.description])
  const [busy, run, problem] = useAction("here")
  const isReplaced = tool.upstreamDescription !== undefined
  const save = (description: string | null) =>
    run("save", async () => {
      await api.send("PATCH", "/tools", { changes: [{ server: tool.server, tool: tool.name, description }] })
      setDraft(description === null ? undefined : { text: description, from: tool.description })
      onChanged()
      return description === null ? "Clients see the server's own text again" : "Clients see the new text"
    })
  return (
    <section class="panel">
      <div class="beside">
        <Field label="What clients see" hint="Saved in mcp.json, as toolDescriptionOverrides.">
          {(id, describedBy) => (
            <textarea
              id={id}
              class="prose"
              rows={6}
              aria-describedby={describedBy}
              value={text}
              onInput={({ currentTarget }) =>
                setDraft({ text: currentTarget.value, from: draft === undefined ? tool.description : draft.from })
              }
            />
          )}
        </Field>
        <div class="field">
          <h2>What the server says</h2>
          <p class="prose-text soft">{isReplaced ? tool.upstreamDescription : (tool.description ?? "nothing")}</p>
        </div>
      </div>
      {isStale && (
        <Failure
          text={`The text was changed elsewhere in the meantime. Clients now see: ${tool.description ?? "nothing"}`}
          label="Use that text"
          retry={() => setDraft(undefined)}
        />
      )}
      <div class="row">
        <Button
          kind="primary"
          isBusy={busy !== undefined}
          disabled={text.trim() === "" || text === tool.description}
          onClick={() => void save(text.trim())}
        >
          Save
        </Button>
        <Button isBusy={busy !== undefined} disabled={!isReplaced} onClick={() => void save(null)}>
          Restore the server's text
        </Button>
        {problem !== undefined && <Failure text={problem} />}
      </div>
    </section>
  )
}

function TryIt({ tool }: { tool: Tool }) {
  const { api } = useApp()
  const schema = inputSchemaOf(tool)
  const [value, setValue] = useState<Readonly<Record<string, unknown>>>(() => defaultsOf(schema))
  const [isJson, setJson] = useState(!isForm(schema))
  const [answer, setAnswer] = useState<{ result: CallResult; ms: number; at: number }>()
  const [busy, run, problem] = useAction("here")
  // The controls keep the text that a person types, so a new example draws them anew.
  const [round, setRound] = useState(0)
  const [isTried, setTried] = useState(false)
  // Marks the questions of this call: other pages show their own.
  const [asks] = useState(() => `${Date.now()}-${Math.random()}`)
  const question = useStateOf((state) => state.questions.find((one) => one.asks === asks))
  useEffect(() => {
    setAnswer(undefined)
    setTried(false)
  }, [tool.qualifiedName])
  const insertExample = () => {
    const example = exampleOf(schema, schema)
    setValue({ ...(isSchema(example) ? example : {}), ...value })
    setRound(round + 1)
  }
  const call = () =>
    run("call", async () => {
      const { result, ms } = await api.send<{ result: CallResult; ms: number }>(
        "POST",
        `/tools/${encodeURIComponent(tool.qualifiedName)}/call`,
        { arguments: value, asks },
      )
      setAnswer((before) => ({ result, ms, at: (before?.at ?? 0) + 1 }))
      return undefined
    })
  if (tool.gone === true) return null
  return (
    <>
      <section class="panel">
        <div class="head">
          <h2>Try it</h2>
          <div class="row">
            <Button onClick={insertExample}>Insert example</Button>
            <Button pressed={isJson} onClick={() => setJson(!isJson)}>
              JSON
            </Button>
          </div>
        </div>
        {tool.disabled && <p class="soft">Clients cannot call it while it is hidden, and neither can this page.</p>}
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault()
            setTried(true)
            if (!focusMissing(event.currentTarget)) void call()
          }}
        >
          {isJson ? (
            <JsonField
              key={round}
              label="Arguments, as JSON"
              value={value}
              onChange={(next) => setValue((next ?? {}) as Readonly<Record<string, unknown>>)}
            />
          ) : (
            <SchemaForm
              key={round}
              schema={schema}
              value={value}
              isTried={isTried}
              takesLines={true}
              onChange={setValue}
            />
          )}
          <div class="row">
            <Button kind="primary" type="submit" isBusy={busy !== undefined} disabled={tool.disabled}>
              Call {tool.name}
            </Button>
            {problem !== undefined && <Failure text={problem} />}
            {annotationTexts(tool).map((text) => (
              <span key={text} class="tag">
                {text}
              </span>
            ))}
          </div>
        </form>
      </section>
      {question !== undefined && <ToolAsks key={question.id} tool={tool.name} question={question} />}
      {answer !== undefined && <Result key={answer.at} result={answer.result} ms={answer.ms} />}
    </>
  )
}

const Definition = ({ tool }: { tool: Tool }) => (
  <section class="panel">
    <h2>Definition</h2>
    <Facts
      rows={[
        ["Name for clients", <code key="name">{tool.qualifiedName}</code>],
        ["Size", tool.characters === undefined ? undefined : countText(tool.characters, "character")],
        ["Tokens", tokensOf(tool) === 0 ? undefined : `about ${numberText(tokensOf(tool))}`],
      ]}
    />
    {tool.definition === undefined ? (
      <p class="soft">The server no longer lists this tool.</p>
    ) : (
      <details>
        <summary>Schemas and annotations, as clients receive them</summary>
        <Json value={tool.definition} />
      </details>
    )}
  </section>
)

function inputSchemaOf({ definition }: Tool): Schema {
  const schema = definition?.inputSchema
  return typeof schema === "object" && schema !== null ? (schema as Schema) : {}
}

/** Returns the server's claims about the tool. */
function annotationTexts({ definition }: Tool): readonly string[] {
  const hints = (definition?.annotations ?? {}) as Readonly<Record<string, unknown>>
  return [
    ...(hints.readOnlyHint === true ? ["declared read-only"] : []),
    ...(hints.destructiveHint === true && hints.readOnlyHint !== true ? ["declared destructive"] : []),
    ...(hints.openWorldHint === true ? ["reaches external systems"] : []),
  ]
}
