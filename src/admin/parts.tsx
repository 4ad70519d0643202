/** Components that all views share. They render texts of servers only as text, never as HTML. */
import { type ComponentChildren, createContext, Fragment, type JSX } from "preact"
import { useContext, useId, useLayoutEffect, useRef, useState } from "preact/hooks"
import { useApp } from "./context.ts"
import { useNow } from "./hooks.ts"
import { createStore, type Store, useSelected } from "./store.ts"
import type { ServerState, StateTones } from "./types.ts"

export type Tone = "good" | "notice" | "bad" | "faint"

const TONES: StateTones = {
  starting: "notice",
  connected: "good",
  asleep: "good",
  degraded: "notice",
  reconnecting: "notice",
  restarting: "notice",
  "crash-loop": "bad",
  failed: "bad",
  "sign-in needed": "notice",
  "token needed": "notice",
  "credentials refused": "bad",
  stopped: "faint",
  disabled: "faint",
  invalid: "bad",
  "no owner": "bad",
  "not in use": "faint",
  "not loaded": "notice",
  "not running": "faint",
}

/** Returns the tone of a server's state. */
export const toneOf = (state: string): Tone => (Object.hasOwn(TONES, state) ? TONES[state as ServerState] : "notice")

/** A state: a colored dot and the word. */
export const StateMark = ({ state, tone = toneOf(state) }: { state: string; tone?: Tone }) => (
  <span class={`state ${tone}`}>
    <span class="dot" aria-hidden="true" />
    {state}
  </span>
)

/** The header of a view: its title and controls. */
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

/** A button. `label` is its accessible name, if the text is not enough. A busy button ignores clicks but keeps the focus. */
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
  /** Hides the label visually; screen readers still read it. */
  readonly isBare?: boolean
  readonly children: (id: string, describedBy: string | undefined) => ComponentChildren
}

/** A form control with its label and hint. */
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

type SearchProps = {
  readonly label: string
  readonly value: string
  /** The link to the hit, if there is exactly one: Enter opens it. */
  readonly onlyHit?: string | undefined
  onInput(value: string): void
}

/** The search field of a view. The key / focuses it. */
export const Search = ({ label, value, onlyHit, onInput }: SearchProps) => (
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
        onKeyDown={(event) => {
          if (event.key !== "Enter") return
          // A search in a form does not send the form.
          event.preventDefault()
          if (onlyHit !== undefined) location.hash = onlyHit
        }}
      />
    )}
  </Field>
)

type ChoiceProps = {
  readonly label: string
  readonly value: string
  readonly options: readonly (readonly [value: string, text: string])[]
  readonly isBare?: boolean
  readonly hint?: ComponentChildren | undefined
  onChange(value: string): void
}

/** A select box. */
export const Choice = ({ label, value, options, isBare = true, hint, onChange }: ChoiceProps) => (
  <Field label={label} isBare={isBare} hint={hint}>
    {(id, describedBy) => (
      <select
        id={id}
        aria-describedby={describedBy}
        value={value}
        onChange={({ currentTarget }) => onChange(currentTarget.value)}
      >
        {options.map(([option, text]) => (
          <option key={option} value={option}>
            {text}
          </option>
        ))}
      </select>
    )}
  </Field>
)

/** A text that breaks after the signs that join words, such as those of a path, rather than inside a word. */
export const Breakable = ({ text }: { text: string }) => (
  <>
    {text.split(/(?<=[/_.:=,?&])/).map((part, at) => (
      <Fragment key={at}>
        {at > 0 && <wbr />}
        {part}
      </Fragment>
    ))}
  </>
)

/** The text in place of an empty list. */
export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>

type FailureProps = { readonly text: string; readonly label?: string; retry?(): void }

/** An error text, with a button to retry. */
export const Failure = ({ text, retry, label = "Try again" }: FailureProps) => (
  <div class="note bad" role="alert">
    <p>{text}</p>
    {retry !== undefined && <Button onClick={retry}>{label}</Button>}
  </div>
)

/** Renders loaded data; until then, a placeholder or the error. */
export function WhenLoaded<T>(props: {
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
  /** "number" aligns to the right, "name" is the header of the row, "wide" is hidden on narrow screens. */
  readonly kind?: "number" | "name" | "wide" | "wide number" | undefined
  /** Returns the value that orders the rows; without it, the column cannot be sorted. */
  sort?(item: T): string | number
  draw(item: T): ComponentChildren
}

/** The column that orders the rows. */
type Order = { readonly column: number; readonly isDescending: boolean }

type TableProps<T> = {
  readonly caption: string
  readonly columns: readonly Column<T>[]
  readonly items: readonly T[]
  keyOf(item: T): string
}

/** A table. It renders 100 rows at first, because thousands of rows are slow in a browser. */
export function Table<T>({ caption, columns, items, keyOf }: TableProps<T>) {
  const [shown, setShown] = useState(ROWS)
  const [order, setOrder] = useState<Order>()
  const rest = items.length - shown
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for the controls of a form */}
      <div class="scroll" role="group" aria-label={caption} tabIndex={0}>
        <table>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map(({ title, kind = "", sort }, column) => {
                const isDescending = order?.column === column ? order.isDescending : undefined
                return (
                  <th key={title} scope="col" class={kind} aria-sort={sort && SORTS[String(isDescending)]}>
                    {sort === undefined ? (
                      title
                    ) : (
                      <button
                        type="button"
                        class="sort"
                        onClick={() => setOrder({ column, isDescending: isDescending === false })}
                      >
                        {title}
                      </button>
                    )}
                  </th>
                )
              })}
            </tr>
          </thead>
          <tbody>
            {sorted(items, columns, order)
              .slice(0, shown)
              .map((item) => (
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

const OpenDialogs = createContext<Store<{ readonly ids: readonly string[] }> | undefined>(undefined)

/** Keeps the ids of the open dialogs inside, the topmost last, so that the notices show above them. */
export function DialogStack({ children }: { children: ComponentChildren }) {
  const [store] = useState(() => createStore<{ readonly ids: readonly string[] }>({ ids: [] }))
  return <OpenDialogs value={store}>{children}</OpenDialogs>
}

function useOpenDialogs() {
  const store = useContext(OpenDialogs)
  if (store === undefined) throw new Error("a dialog is drawn outside of the stack")
  return store
}

/** The notices. The topmost dialog shows them, because everything outside a modal dialog is inert and below it. */
export function Notices({ dialog }: { dialog?: string }) {
  const { ui } = useApp()
  const notices = useSelected(ui.store, (state) => state.notices)
  const top = useSelected(useOpenDialogs(), ({ ids }) => ids.at(-1))
  return (
    <div class="notices" role="status" aria-live="polite">
      {top === dialog &&
        notices.map(({ id, tone, text }) => (
          <div key={id} class={`note ${tone}`}>
            <p>{text}</p>
            <Button kind="quiet" label="Close this notice" onClick={() => ui.close(id)}>
              ✕
            </Button>
          </div>
        ))}
    </div>
  )
}

/** A modal dialog. The browser traps the focus, closes the dialog on Escape, and then restores the focus. */
export function Dialog({ title, isWide = false, children, onClose }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null)
  const openDialogs = useOpenDialogs()
  const id = useId()
  const isGone = useRef(false)
  useLayoutEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    // Else the focus is on the button that closes the dialog, and Enter dismisses a question of a tool.
    dialog?.querySelector<HTMLElement>("input, select, textarea")?.focus()
    openDialogs.set({ ids: [...openDialogs.get().ids, id] })
    return () => {
      openDialogs.set({ ids: openDialogs.get().ids.filter((one) => one !== id) })
      // The browser restores the focus only if a dialog is closed, not if its element is removed.
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
      <Notices dialog={id} />
    </dialog>
  )
}

/** The time since a moment. The tooltip shows the date and time. */
export function Ago({ at }: { at: string }) {
  const now = useNow(1000)
  return (
    <time dateTime={at} title={dateText(at)}>
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

/** Returns a date with its time, such as 28 Nov 2026, 15:29:06. */
export const dateText = (at: string): string =>
  new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })

/** Returns a number with thousands separators. */
export const numberText = (value: number): string => value.toLocaleString("en")

/** Returns a count with its noun, such as "1 tool" or "3 tools". */
export const countText = (count: number, noun: string): string =>
  `${numberText(count)} ${noun}${count === 1 ? "" : "s"}`

/** A value as JSON text. */
export const Json = ({ value }: { value: unknown }) => <pre class="code">{JSON.stringify(value, null, 2)}</pre>

/** A list of names and values. It omits undefined values. */
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

/** The tags of a server. With `onPick`, each is a button. */
export const Tags = ({ tags, onPick }: { tags: readonly string[]; onPick?(tag: string): void }) => (
  <span class="tags">
    {tags.map((tag) =>
      onPick === undefined ? (
        <span key={tag} class="tag">
          {tag}
        </span>
      ) : (
        <button key={tag} type="button" class="tag" title={`Servers with the tag ${tag}`} onClick={() => onPick(tag)}>
          {tag}
        </button>
      ),
    )}
  </span>
)

type SelectableProps = {
  /** The accessible name of the checkbox. */
  readonly label: string
  readonly chosen: ReadonlySet<string>
  readonly id: string
  readonly children: ComponentChildren
  onChoose(chosen: ReadonlySet<string>): void
}

/** The name of a row, with a checkbox that selects the row. */
export const Selectable = ({ label, chosen, id, children, onChoose }: SelectableProps) => (
  <div class="check">
    <input
      type="checkbox"
      aria-label={label}
      checked={chosen.has(id)}
      onChange={({ currentTarget }) => {
        const next = new Set(chosen)
        if (currentTarget.checked) next.add(id)
        else next.delete(id)
        onChoose(next)
      }}
    />
    <div>{children}</div>
  </div>
)

type SelectionBarProps = { readonly text: string; readonly children: ComponentChildren; onClear(): void }

/** The actions for the selected rows, at the bottom of the screen. */
export const SelectionBar = ({ text, children, onClear }: SelectionBarProps) => (
  <fieldset class="bar row">
    <legend class="hidden">Selected rows</legend>
    <strong role="status">{text}</strong>
    {children}
    <Button onClick={onClear}>Clear</Button>
  </fieldset>
)

// ---

const ROWS = 100
/** The value of aria-sort, by whether the order is descending. */
const SORTS: Readonly<Record<string, "ascending" | "descending" | "none">> = {
  false: "ascending",
  true: "descending",
  undefined: "none",
}

/** Returns the items in the order of a column. Equal items keep their order. */
function sorted<T>(items: readonly T[], columns: readonly Column<T>[], order: Order | undefined): readonly T[] {
  const sort = order && columns[order.column]?.sort
  if (order === undefined || sort === undefined) return items
  const direction = order.isDescending ? -1 : 1
  return items
    .map((item) => ({ item, value: sort(item) }))
    .sort(({ value: one }, { value: other }) => {
      const difference =
        typeof one === "number" && typeof other === "number" ? one - other : TEXTS.compare(String(one), String(other))
      return direction * difference
    })
    .map(({ item }) => item)
}

const TEXTS = new Intl.Collator("en", { numeric: true })
