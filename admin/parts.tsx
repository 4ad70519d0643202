/** The parts that all views are made of. Texts of servers are drawn as text alone. */
import type { ComponentChildren, JSX } from "preact"
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { useNow } from "./hooks.ts"
import type { ServerState } from "./types.ts"

export type Tone = "good" | "notice" | "bad" | "faint"

/** The same tones as in a terminal. */
const TONES: Readonly<Record<ServerState, Tone>> = {
  starting: "notice",
  connected: "good",
  degraded: "notice",
  reconnecting: "notice",
  restarting: "notice",
  "crash-loop": "bad",
  failed: "bad",
  asleep: "good",
  "sign-in needed": "notice",
  "token needed": "notice",
  "credentials refused": "bad",
  stopped: "faint",
  disabled: "faint",
  invalid: "bad",
  "not in use": "faint",
  "not loaded": "notice",
  "not running": "faint",
}

/** Returns the tone of a server's state. */
export const toneOf = (state: string): Tone => (Object.hasOwn(TONES, state) ? TONES[state as ServerState] : "notice")

/** A state: a mark in its color, and the word. */
export const StateMark = ({ state, tone = toneOf(state) }: { state: string; tone?: Tone }) => (
  <span class={`state ${tone}`}>
    <span class="dot" aria-hidden="true" />
    {state}
  </span>
)

/** The head of a view: its title, and its controls. */
export const Head = ({ title, children }: { title: ComponentChildren; children?: ComponentChildren }) => (
  <header class="head">
    <h1 tabIndex={-1}>{title}</h1>
    <div class="tools">{children}</div>
  </header>
)

type ButtonProps = {
  readonly children: ComponentChildren
  readonly kind?: "plain" | "primary" | "danger" | "quiet"
  readonly type?: "button" | "submit"
  readonly isBusy?: boolean
  readonly disabled?: boolean
  readonly label?: string | undefined
  readonly pressed?: boolean
  onClick?(): void
}

/** A button. `label` names it where its text alone does not. A busy one does nothing, but keeps the focus. */
export const Button = ({ children, kind = "plain", type = "button", isBusy = false, ...rest }: ButtonProps) => (
  <button
    type={type}
    class={`button ${kind}`}
    disabled={rest.disabled}
    aria-disabled={isBusy || undefined}
    aria-busy={isBusy}
    aria-label={rest.label}
    aria-pressed={rest.pressed}
    onClick={(event) => (isBusy ? event.preventDefault() : rest.onClick?.())}
  >
    {children}
  </button>
)

type FieldProps = {
  readonly label: string
  readonly hint?: ComponentChildren | undefined
  /** Hides the label from the eye alone. */
  readonly isBare?: boolean
  readonly children: (id: string, describedBy: string | undefined) => ComponentChildren
}

/** A control with its label and hint. */
export function Field({ label, hint, isBare = false, children }: FieldProps) {
  const id = useId()
  const hintId = hint === undefined ? undefined : `${id}-hint`
  return (
    <div class="field">
      <label for={id} class={isBare ? "hidden" : ""}>
        {label}
      </label>
      {children(id, hintId)}
      {hint !== undefined && (
        <p class="hint" id={hintId}>
          {hint}
        </p>
      )}
    </div>
  )
}

type SearchProps = { readonly label: string; readonly value: string; onInput(value: string): void }

/** The search field of a view: the key / focuses it. */
export const Search = ({ label, value, onInput }: SearchProps) => (
  <Field label={label} isBare={true}>
    {(id) => (
      <input
        id={id}
        type="search"
        class="search"
        data-search
        placeholder={`${label}  ( / )`}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
    )}
  </Field>
)

type ChoiceProps = {
  readonly label: string
  readonly value: string
  readonly options: readonly (readonly [value: string, text: string])[]
  readonly isBare?: boolean
  onChange(value: string): void
}

/** A choice of one of several values. */
export const Choice = ({ label, value, options, isBare = true, onChange }: ChoiceProps) => (
  <Field label={label} isBare={isBare}>
    {(id) => (
      <select id={id} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    )}
  </Field>
)

/** What is shown where a list has no entries. */
export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>

type FailureProps = { readonly text: string; readonly label?: string; retry?(): void }

/** A failure, with what to do. */
export const Failure = ({ text, retry, label = "Try again" }: FailureProps) => (
  <div class="note bad" role="alert">
    <p>{text}</p>
    {retry !== undefined && <Button onClick={retry}>{label}</Button>}
  </div>
)

/** Draws what was loaded; until then, what is missing. */
export function Shown<T>(props: {
  loaded: { data: T | undefined; error: string | undefined; reload(): void }
  children: (data: T) => ComponentChildren
}) {
  const { data, error, reload } = props.loaded
  return (
    <>
      {error !== undefined && <Failure text={error} retry={reload} />}
      {data === undefined ? error === undefined && <p class="empty">Loading …</p> : props.children(data)}
    </>
  )
}

type Column<T> = {
  readonly title: string
  /** "number" aligns to the right, "name" heads the row, "wide" is left out on narrow screens. */
  readonly kind?: "number" | "name" | "wide" | "wide number" | undefined
  draw(item: T): ComponentChildren
}

type TableProps<T> = {
  readonly caption: string
  readonly columns: readonly Column<T>[]
  readonly items: readonly T[]
  keyOf(item: T): string
}

/** A table. It draws a hundred rows at first, because a browser takes long for thousands. */
export function Table<T>({ caption, columns, items, keyOf }: TableProps<T>) {
  const [shown, setShown] = useState(ROWS)
  const rest = items.length - shown
  return (
    <>
      <div class="scroll">
        <table>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map(({ title, kind = "" }) => (
                <th key={title} scope="col" class={kind}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {items.slice(0, shown).map((item) => (
              <tr key={keyOf(item)}>
                {columns.map(({ title, kind = "", draw }) =>
                  kind === "name" ? (
                    <th key={title} scope="row" class="name">
                      {draw(item)}
                    </th>
                  ) : (
                    <td key={title} class={kind} data-title={title}>
                      {draw(item)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rest > 0 && (
        <p class="more">
          <Button onClick={() => setShown(shown + ROWS * 4)}>
            Show {Math.min(rest, ROWS * 4)} more of {items.length}
          </Button>
        </p>
      )}
    </>
  )
}

type DialogProps = {
  readonly title: string
  readonly isWide?: boolean
  readonly children: ComponentChildren
  onClose(): void
}

/** A dialog. The browser keeps the focus inside, closes it on Escape, and then gives the focus back. */
export function Dialog({ title, isWide = false, children, onClose }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  const id = useId()
  const isGone = useRef(false)
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    return () => {
      // The focus goes back if a dialog is closed, not if it is only removed.
      isGone.current = true
      dialog?.close()
    }
  }, [])
  return (
    <dialog
      ref={element}
      class={isWide ? "wide" : ""}
      aria-labelledby={id}
      onClose={() => {
        if (!isGone.current) onClose()
      }}
    >
      <header class="head">
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" label="Close" onClick={() => element.current?.close()}>
          ✕
        </Button>
      </header>
      {children}
    </dialog>
  )
}

/** A moment, as the time since then; the whole moment is its title. */
export function Ago({ at }: { at: string }) {
  const now = useNow(1000)
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {durationText(Math.max(0, now - Date.parse(at)))} ago
    </time>
  )
}

/** The time until a moment. */
export function Until({ at }: { at: string }) {
  const now = useNow(500)
  const left = Date.parse(at) - now
  return <time dateTime={at}>{left <= 0 ? "now" : `in ${durationText(left)}`}</time>
}

/** Returns a duration in its largest unit: 42 s, 5 min, 3 h, 2 d. */
function durationText(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`
  return seconds < 86_400 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`
}

/** Returns milliseconds with three digits: 0.42 ms, 12 ms, 1.2 s. */
export function latencyText(ms: number): string {
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`
  return `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`
}

/** Returns a number with thousands separated. */
export const numberText = (value: number): string => value.toLocaleString("en")

/** Returns a count with its noun: "1 tool", "3 tools". */
export const countText = (count: number, noun: string): string =>
  `${numberText(count)} ${noun}${count === 1 ? "" : "s"}`

/** A value as JSON text. */
export const Json = ({ value }: { value: unknown }) => <pre class="code">{JSON.stringify(value, null, 2)}</pre>

/** A list of facts. One without a value is left out. */
export const Facts = ({ rows }: { rows: readonly (readonly [string, ComponentChildren])[] }): JSX.Element => (
  <dl class="facts">
    {rows
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
  </dl>
)

/** Tags of a server. */
export const Tags = ({ tags }: { tags: readonly string[] }) => (
  <span class="tags">
    {tags.map((tag) => (
      <span key={tag} class="tag">
        {tag}
      </span>
    ))}
  </span>
)

// ---

const ROWS = 100
