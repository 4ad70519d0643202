/** One field that takes whatever the README of a server gives: JSON, a command, an address, or the name of a package. */
import { useEffect, useRef, useState } from "preact/hooks"
import { type AppContext, useApp } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import { Breakable, Button, countText, Failure, Field, Table, toneOf } from "../parts.tsx"
import { goFromHere } from "../router.ts"
import type { PastedServer, Server } from "../types.ts"

type PasteProps = {
  onRead(server: PastedServer): void
  /** Whether the text has several servers, so that the form of one is in the way. */
  onSeveral(isSo: boolean): void
}

/** The field. It gives the only server of a text to `onRead`, and offers to add several servers at once. */
export function Paste({ onRead, onSeveral }: PasteProps) {
  const wasRead = useRef(false)
  const { api } = useApp()
  const [text, setText] = useState("")
  const settled = useSettled(text.trim(), 300)
  const loaded = useLoaded(
    async () =>
      settled === ""
        ? []
        : (await api.send<{ items: readonly PastedServer[] }>("POST", "/paste", { text: settled })).items,
    [settled],
  )
  const found = loaded.error === undefined ? (loaded.data ?? []) : []
  const [only] = found
  useEffect(() => {
    const isRead = found.length === 1 && only !== undefined
    // The form must not keep the server of an earlier text.
    if (isRead || wasRead.current) onRead(isRead ? only : NOTHING_READ)
    wasRead.current = isRead
    onSeveral(found.length > 1)
  }, [loaded.data, loaded.error])
  const notes =
    found.length === 1 ? [...(only?.notes ?? []), ...(only?.problem === undefined ? [] : [only.problem])] : []
  return (
    <section class="panel">
      <Field
        label="Paste anything"
        hint="The JSON of any client, a command line such as npx -y some-server, an address, or the name of a package. The form below shows what svc has read."
      >
        {(id, describedBy) => (
          <textarea
            id={id}
            rows={4}
            class="mono"
            spellcheck={false}
            aria-describedby={describedBy}
            value={text}
            onInput={({ currentTarget }) => setText(currentTarget.value)}
          />
        )}
      </Field>
      {loaded.error !== undefined && settled !== "" && <Failure text={loaded.error} />}
      {notes.map((note) => (
        <div key={note} class="note notice">
          <p>{note}</p>
        </div>
      ))}
      {found.length > 1 && <Several servers={found} />}
    </section>
  )
}

/**
 * Adds one server, and says what state it has reached. Keys go to `.env` if `moveKeys`. Before an event has told the page of the new
 * server, its view would say that there is none, and the list of servers would show how to begin: so the page reads them again.
 */
export async function addServer(
  { api, live }: Pick<AppContext, "api" | "live">,
  name: string,
  server: Readonly<Record<string, unknown>>,
  more: { readonly moveKeys: boolean; readonly template: boolean },
): Promise<{ readonly tone: "good" | "notice"; readonly text: string }> {
  const answer = await api.send<{ server: Server; warnings: readonly string[] }>("POST", "/servers", {
    name,
    server,
    ...more,
  })
  await live.refresh()
  const { state } = answer.server
  const tone = toneOf(state) === "good" || state === "disabled" || state === "not in use" ? "good" : "notice"
  return {
    tone: answer.warnings.length > 0 ? "notice" : tone,
    text: [`${name} was added: ${state}`, ...answer.warnings].join("\n"),
  }
}

// ---

const NOTHING_READ: PastedServer = { name: "", server: {}, template: false, notes: [] }

/** Several servers of one text, each with a box. */
function Several({ servers }: { servers: readonly PastedServer[] }) {
  const { api, live, ui } = useApp()
  const [left, setLeft] = useState<ReadonlySet<number>>(new Set())
  const [busy, run, problem] = useAction("here")
  const rows = servers.map((server, at) => ({ ...server, at }))
  const chosen = rows.filter(({ at, problem: why }) => why === undefined && !left.has(at))
  const add = async () => {
    const go = goFromHere()
    const isDone = await run("add", async () => {
      for (const { name, server, template } of chosen) {
        const { tone, text } = await addServer({ api, live }, name, server, { moveKeys: true, template })
        ui.say(tone, text)
      }
      return undefined
    })
    if (isDone) go(["servers"])
  }
  return (
    <>
      <Table
        caption="Servers in the pasted text"
        items={rows}
        keyOf={({ at }) => String(at)}
        columns={[
          {
            title: "Server",
            kind: "name",
            draw: ({ name, at, problem: why }) => (
              <label class="check">
                <input
                  type="checkbox"
                  disabled={why !== undefined}
                  checked={why === undefined && !left.has(at)}
                  onChange={({ currentTarget }) => {
                    const next = new Set(left)
                    if (currentTarget.checked) next.delete(at)
                    else next.add(at)
                    setLeft(next)
                  }}
                />
                {name}
              </label>
            ),
          },
          {
            title: "Runs",
            draw: ({ server, notes, problem: why }) => (
              <>
                <code>
                  <Breakable text={commandOf(server)} />
                </code>
                <span class="sub">{[...notes, why].filter(Boolean).join("; ")}</span>
              </>
            ),
          },
        ]}
      />
      {problem !== undefined && <Failure text={problem} />}
      <Button kind="primary" isBusy={busy !== undefined} disabled={chosen.length === 0} onClick={() => void add()}>
        Add {countText(chosen.length, "server")}
      </Button>
    </>
  )
}

const commandOf = ({ command, args, url }: PastedServer["server"]): string =>
  typeof url === "string" ? url : [command, ...(Array.isArray(args) ? args : [])].map(String).join(" ")
