/** The command palette, which leads to every view, server and tool, and the list of the keyboard shortcuts. */
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { useApp, useStateOf } from "./context.ts"
import { useLoaded } from "./hooks.ts"
import { Dialog, Failure } from "./parts.tsx"
import { linkTo } from "./router.ts"
import type { Tool } from "./types.ts"
import { VIEWS } from "./views.ts"
import { wordFilter } from "./words.ts"

type OverlayProps = { onClose(): void }

/** The command palette. The focus stays in the field; the arrow keys mark an entry, and Enter opens it. */
export function Palette({ onClose }: OverlayProps) {
  const { api } = useApp()
  const servers = useStateOf((state) => state.servers)
  const tools = useLoaded(() => api.all<Tool>("/tools"), [])
  const [text, setText] = useState("")
  const [marked, setMarked] = useState(0)
  const field = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const id = useId()
  // The dialog itself focuses its first control, the button that closes it.
  useLayoutEffect(() => field.current?.focus(), [])
  useLayoutEffect(() => list.current?.children[marked]?.scrollIntoView({ block: "nearest" }), [marked])
  const all: readonly Entry[] = [
    ...VIEWS.map((view) => ({ kind: "view", name: view.title, link: linkTo([view.id]) })),
    { kind: "action", name: "Add a server", link: linkTo(["servers", "add"]) },
    ...servers.map(({ name }) => ({ kind: "server", name, link: linkTo(["servers", name]) })),
    ...(tools.data ?? []).map((tool) => ({
      kind: `tool of ${tool.server}`,
      name: tool.name,
      link: linkTo(["tools", tool.qualifiedName]),
    })),
  ]
  const hasWords = wordFilter(text)
  const start = text.trim().toLowerCase()
  const isNamed = ({ name }: Entry) => start !== "" && name.toLowerCase().startsWith(start)
  const matching = all.filter(({ kind, name }) => hasWords(`${name} ${kind}`))
  const found = [...matching.filter(isNamed), ...matching.filter((entry) => !isNamed(entry))].slice(0, MAX_FOUND)
  const open = (entry: Entry | undefined) => {
    if (entry === undefined) return
    // Closing restores the focus, so it precedes the new view, which takes the focus.
    onClose()
    location.hash = entry.link
  }
  const mark = (at: number) => setMarked(found.length === 0 ? 0 : (at + found.length) % found.length)
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        ref={field}
        type="text"
        class="palette"
        role="combobox"
        aria-label="View, server, tool or action"
        aria-expanded={found.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={found.length === 0 ? undefined : `${id}-${marked}`}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value)
          setMarked(0)
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") open(found[marked])
          else if (event.key === "ArrowDown") mark(marked + 1)
          else if (event.key === "ArrowUp") mark(marked - 1)
          else return
          event.preventDefault()
        }}
      />
      {tools.error !== undefined && <Failure text={tools.error} retry={tools.reload} />}
      <div ref={list} id={`${id}-list`} class="found" role="listbox" aria-label="Found">
        {found.map((entry, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field
          <div
            key={entry.link}
            id={`${id}-${at}`}
            role="option"
            aria-selected={at === marked}
            onClick={() => open(entry)}
          >
            {entry.name} <span class="soft">{entry.kind}</span>
          </div>
        ))}
      </div>
      <p class="soft" role="status">
        {found.length === 0 && (tools.isLoading ? "Loading the tools …" : "Nothing has these words.")}
      </p>
    </Dialog>
  )
}

/** The list of the keyboard shortcuts. */
export const Keys = ({ onClose }: OverlayProps) => (
  <Dialog title="Keyboard shortcuts" onClose={onClose}>
    <dl class="keys">
      {KEYS.map(([keys, effect]) => (
        <div key={keys}>
          <dt>
            <kbd>{keys}</kbd>
          </dt>
          <dd>{effect}</dd>
        </div>
      ))}
    </dl>
  </Dialog>
)

// ---

type Entry = { readonly kind: string; readonly name: string; readonly link: string }

const MAX_FOUND = 50
const KEYS = [
  ["Ctrl K or ⌘ K", "Go to a view, a server or a tool"],
  ["/", "Search in this view"],
  [
    "Enter",
    "In a search: open the only hit. In a list of a form: add the next row. In another field of one line: send the form",
  ],
  ["Ctrl Enter", "Send the form, also from a field of several lines; on a Mac ⌘ Enter"],
  ["?", "Show this list"],
  ["Esc", "Close a dialog"],
] as const
