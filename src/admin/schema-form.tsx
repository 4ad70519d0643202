/**
 * A form generated from a JSON Schema, for the settings of a server and the arguments of a tool.
 *
 *  1. A value that no control can show is edited as JSON text, so that a person can enter any value.
 *  2. An empty field means an absent value, unless the schema requires a string. A required value that is absent is marked, and
 *     `focusMissing` leads to it.
 *  3. Schemas come from servers, so the form shows large and deep schemas as JSON text, and a nested object only after a
 *     person has added it: a schema that contains itself would else have no end.
 */
import { type ComponentChildren, createContext, type TargetedClipboardEvent, type TargetedInputEvent } from "preact"
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks"
import {
  alternativesOf,
  defaultsOf,
  exampleOf,
  isSchema,
  propertiesOf,
  requiredOf,
  resolved,
  type Schema,
} from "./json-schema.ts"
import { Button, Field } from "./parts.tsx"

export type { Schema }

type ControlProps = {
  readonly name: string
  readonly schema: Schema
  readonly value: unknown
  readonly isRequired: boolean
  /** What the member is for people, shown before its name. */
  readonly word?: string | undefined
  /** What to enter, in place of the schema's description. */
  readonly entry?: ComponentChildren | undefined
  /** The schema that the references are about. */
  readonly root: Schema
  /** The number of objects and lists around the control. */
  readonly depth: number
  /** Called with undefined for an absent value. */
  onChange(value: unknown): void
}

type FormProps = {
  /** The schema of an object. */
  readonly schema: Schema
  readonly value: Readonly<Record<string, unknown>>
  /** The members that are always visible; the others are under "More settings". */
  readonly first?: readonly string[]
  /** What members are for people, by name. */
  readonly words?: Readonly<Record<string, string>>
  /** What to enter, by the names of members; for others, the schema says it. */
  readonly entries?: Readonly<Record<string, ComponentChildren>>
  /** Whether to say which required values are absent: after a person has tried to send the form. */
  readonly isTried?: boolean
  /** Whether a text may have several lines. If not, Enter sends the form. */
  readonly takesLines?: boolean
  onChange(value: Readonly<Record<string, unknown>>): void
}

/** A form with one control for each member of an object. */
export const SchemaForm = ({ isTried = false, takesLines = false, ...props }: FormProps) => (
  <Form value={{ isTried, takesLines }}>
    <Members {...props} root={props.schema} depth={0} />
  </Form>
)

/** Focuses the first required value that is absent from the forms in an element. Returns whether there is one. */
export function focusMissing(element: Element): boolean {
  const found = element.querySelector<HTMLElement>("[data-missing]")
  const control = found instanceof HTMLFieldSetElement ? found.querySelector<HTMLElement>("button, input") : found
  control?.focus()
  return found !== null
}

function Members(props: FormProps & Pick<ControlProps, "root" | "depth">) {
  const { schema, value, first, words = {}, entries = {}, root, depth, onChange } = props
  const properties = propertiesOf(schema)
  const required = requiredOf(schema)
  const names = Object.keys(properties)
  const isFirst = (name: string) => first === undefined || first.includes(name)
  const rest = names.filter((name) => !isFirst(name))
  const stray = Object.keys(value).filter((name) => !names.includes(name))
  const draw = (name: string) => (
    <Control
      key={name}
      name={name}
      word={words[name]}
      entry={entries[name]}
      schema={resolved(properties[name], root)}
      root={root}
      depth={depth}
      value={value[name]}
      isRequired={required.includes(name)}
      onChange={(next) => onChange(withMember(value, name, next))}
    />
  )
  return (
    <div class="form">
      {(first ?? names).filter((name) => names.includes(name)).map(draw)}
      {stray.map(draw)}
      {rest.length > 0 && (
        <details>
          <summary>More settings ({rest.length})</summary>
          <div class="form more-settings">{rest.map(draw)}</div>
        </details>
      )}
    </div>
  )
}

/** A value as JSON text. Calls `onChange` when the text is valid; until then, the browser does not submit the form. */
export function JsonField({ label, value, hint, rows = 8, marks = {}, onChange }: JsonFieldProps) {
  const [text, setText] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)))
  const [problem, setProblem] = useState<string>()
  return (
    <Field label={label} hint={hint}>
      {(id, describedBy) => (
        <>
          <textarea
            id={id}
            rows={rows}
            spellcheck={false}
            aria-describedby={describedBy}
            {...marks}
            aria-invalid={problem !== undefined || marks["aria-invalid"] === true}
            value={text}
            onInput={({ currentTarget }) => {
              setText(currentTarget.value)
              const found = jsonProblem(currentTarget.value)
              setProblem(found)
              // The browser then refuses to submit the form, which would send the last valid text.
              currentTarget.setCustomValidity(found ?? "")
              if (found === undefined)
                onChange(currentTarget.value.trim() === "" ? undefined : JSON.parse(currentTarget.value))
            }}
          />
          {problem !== undefined && (
            <p class="problem" role="alert">
              {problem}
            </p>
          )}
        </>
      )}
    </Field>
  )
}

type JsonFieldProps = {
  readonly label: string
  readonly value: unknown
  readonly hint?: ComponentChildren | undefined
  readonly rows?: number
  readonly marks?: Marks
  onChange(value: unknown): void
}

/** Whether a schema is small enough for a form. */
export const isForm = (schema: Schema): boolean => Object.keys(propertiesOf(schema)).length <= MAX_MEMBERS

// ---

const Form = createContext({ isTried: false, takesLines: false })

/** The attributes of a control whose value is required. */
type Marks = { readonly "aria-required"?: true; readonly "aria-invalid"?: true; readonly "data-missing"?: true }

const MAX_MEMBERS = 80
const MAX_DEPTH = 4
const MAX_ALTERNATIVES = 8
/** How many alternatives may contain each other. */
const MAX_HOPS = 3
/** Returns the title of a schema, unless it only repeats the name. */
function titleOf({ title }: Schema, name: string): string | undefined {
  const letters = (text: string) => text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "")
  return typeof title === "string" && letters(title) !== letters(name) ? title : undefined
}

/** Returns why a text is not JSON; undefined if it is JSON or empty. */
function jsonProblem(text: string): string | undefined {
  try {
    if (text.trim() !== "") JSON.parse(text)
    return undefined
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : ""}`
  }
}

function Control(props: ControlProps) {
  const { name, word, entry, schema, value, isRequired, root, depth, onChange } = props
  const kind = kindOf(schema, value, root, depth)
  const { isTried, takesLines } = useContext(Form)
  const called = word ?? titleOf(schema, name)
  const shown = called === undefined ? name : `${called} (${name})`
  const label = isRequired ? `${shown} (required)` : shown
  const about = entry ?? (typeof schema.description === "string" ? schema.description : undefined)
  // An object of the first level shows its members, and these are marked.
  const isMissing = isRequired && value === undefined && (kind.kind !== "object" || depth > 0)
  const isShown = isTried && isMissing
  const hint = isShown ? (
    <>
      <span class="problem">Required.</span> {about}
    </>
  ) : (
    about
  )
  const missing: Marks = isMissing ? { "data-missing": true } : {}
  const marks: Marks = isRequired
    ? { "aria-required": true, ...(isShown ? { "aria-invalid": true } : {}), ...missing }
    : {}
  switch (kind.kind) {
    case "choice":
      return (
        <Field label={label} hint={hint}>
          {(id, describedBy) => (
            <select
              id={id}
              {...marks}
              aria-describedby={describedBy}
              value={value === undefined ? "" : JSON.stringify(value)}
              onChange={({ currentTarget }) =>
                onChange(currentTarget.value === "" ? undefined : JSON.parse(currentTarget.value))
              }
            >
              <option value="">
                {schema.default === undefined ? "not set" : `not set (${String(schema.default)})`}
              </option>
              {kind.values.map((one, at) => (
                <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
                  {kind.titles[at] ?? (typeof one === "string" ? one : JSON.stringify(one))}
                </option>
              ))}
            </select>
          )}
        </Field>
      )
    case "number":
      return (
        <Field label={label} hint={hint}>
          {(id, describedBy) => (
            <input
              id={id}
              {...marks}
              type="number"
              step={kind.schema.type === "integer" ? 1 : "any"}
              aria-describedby={describedBy}
              value={typeof value === "number" ? value : ""}
              onInput={({ currentTarget }) =>
                onChange(currentTarget.value === "" ? undefined : Number(currentTarget.value))
              }
            />
          )}
        </Field>
      )
    case "text": {
      const text = value === undefined ? "" : String(value)
      const shared = {
        ...marks,
        spellcheck: false,
        value: text,
        onInput: ({ currentTarget }: TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>) =>
          onChange(currentTarget.value === "" && !isRequired ? undefined : currentTarget.value),
      }
      return (
        <Field label={label} hint={hint}>
          {(id, describedBy) =>
            takesLines || text.includes("\n") ? (
              <textarea {...shared} id={id} rows={1} class="grows" aria-describedby={describedBy} />
            ) : (
              <input
                {...shared}
                {...(kind.schema.format === "date" ? { type: "date" } : {})}
                id={id}
                class="mono"
                aria-describedby={describedBy}
              />
            )
          }
        </Field>
      )
    }
    case "list":
      return <ListControl {...props} schema={kind.schema} label={label} hint={hint} missing={missing} />
    case "map":
      return <MapControl {...props} label={label} hint={hint} missing={missing} />
    case "rows":
      return <RowsControl {...props} schema={kind.schema} label={label} hint={hint} missing={missing} />
    case "object":
      return <ObjectControl {...props} schema={kind.schema} label={label} hint={hint} missing={missing} />
    case "json":
      return (
        <JsonField label={`${label}, as JSON`} hint={hint} value={value} rows={3} marks={marks} onChange={onChange} />
      )
  }
}

type LabelledProps = ControlProps & {
  readonly label: string
  readonly hint: ComponentChildren | undefined
  /** Marks the whole control: a list without elements has no field that could be marked. */
  readonly missing: Marks
}

/**
 * A list of strings or numbers. Enter adds a row, and several pasted lines become rows. A row that is new or was emptied is no element:
 * who presses Enter after the last argument would else give the program an empty one.
 */
function ListControl({ name, schema, value, label, hint, missing, isRequired, root, onChange }: LabelledProps) {
  const isNumber = ["number", "integer"].includes(String(resolved(schema.items, root).type))
  const given: readonly unknown[] = Array.isArray(value) ? value : []
  const [drawn, setDrawn] = useState<readonly unknown[]>(given)
  // The value may have been replaced elsewhere, such as by an example.
  const rows = JSON.stringify(filled(drawn)) === JSON.stringify(given) ? drawn : given
  const element = useRef<HTMLFieldSetElement>(null)
  // The new field exists only after the new row is drawn.
  const focusAt = useRef<number | undefined>(undefined)
  useLayoutEffect(() => {
    if (focusAt.current === undefined) return
    element.current?.querySelectorAll("input")[focusAt.current]?.focus()
    focusAt.current = undefined
  })
  const set = (next: readonly unknown[]) => {
    setDrawn(next)
    onChange(filled(next).length === 0 && !isRequired ? undefined : filled(next))
  }
  const parsed = (text: string) => {
    if (text === "") return undefined
    return isNumber && !Number.isNaN(Number(text)) ? Number(text) : text
  }
  const add = (at: number) => {
    focusAt.current = at
    set(rows.toSpliced(at, 0, undefined))
  }
  const paste = (event: TargetedClipboardEvent<HTMLInputElement>, at: number) => {
    const { value: old, selectionStart, selectionEnd } = event.currentTarget
    const pasted = event.clipboardData?.getData("text") ?? ""
    // A number field has no selection; the lines replace its number.
    const whole = `${old.slice(0, selectionStart ?? 0)}${pasted}${old.slice(selectionEnd ?? old.length)}`
    const lines = whole.split(/\r?\n/).filter((line) => line.trim() !== "")
    if (lines.length < 2) return
    event.preventDefault()
    focusAt.current = at + lines.length - 1
    set(rows.toSpliced(at, 1, ...lines.map(parsed)))
  }
  return (
    <fieldset ref={element} {...missing}>
      <legend>{label}</legend>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {rows.map((item, at) => (
        <div key={at} class="item">
          <input
            aria-label={`${name} ${at + 1}`}
            {...(isNumber ? { type: "number", step: "any" } : {})}
            spellcheck={false}
            value={item === undefined ? "" : String(item)}
            onInput={({ currentTarget }) => set(rows.with(at, parsed(currentTarget.value)))}
            onPaste={(event) => paste(event, at)}
            onKeyDown={(event) => {
              // Enter that ends the composition of a character is not an Enter in the form.
              if (event.key !== "Enter" || event.isComposing || event.ctrlKey || event.metaKey) return
              event.preventDefault()
              add(at + 1)
            }}
          />
          <Button kind="quiet" label={`Remove ${name} ${at + 1}`} onClick={() => set(rows.toSpliced(at, 1))}>
            ✕
          </Button>
        </div>
      ))}
      <Button label={`Add to ${name}`} onClick={() => add(rows.length)}>
        Add
      </Button>
    </fieldset>
  )
}

/** Returns the rows in which something was entered. */
const filled = (rows: readonly unknown[]): readonly unknown[] => rows.filter((row) => row !== undefined)

/** A list of objects, choices or lists, each with its own control. */
function RowsControl({ name, schema, value, label, hint, missing, isRequired, root, depth, onChange }: LabelledProps) {
  const items: readonly unknown[] = Array.isArray(value) ? value : []
  const item = resolved(schema.items, root)
  const element = useRef<HTMLFieldSetElement>(null)
  const [added, setAdded] = useState(0)
  // Some controls keep the text that a person types, so the rows after a removed row must be drawn anew.
  const [removed, setRemoved] = useState(0)
  useLayoutEffect(() => {
    if (added > 0)
      element.current?.querySelector<HTMLElement>(":scope > .part:last-of-type :is(input, select, textarea)")?.focus()
  }, [added])
  const set = (next: readonly unknown[]) => onChange(next.length === 0 && !isRequired ? undefined : next)
  return (
    <fieldset ref={element} {...missing}>
      <legend>{label}</legend>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {items.map((one, at) => (
        <div key={`${removed} ${at}`} class="part">
          <Control
            name={`${name} ${at + 1}`}
            schema={item}
            value={one}
            isRequired={true}
            root={root}
            depth={depth + 1}
            onChange={(next) => set(items.with(at, next ?? null))}
          />
          <Button
            kind="quiet"
            label={`Remove ${name} ${at + 1}`}
            onClick={() => {
              setRemoved(removed + 1)
              set(items.toSpliced(at, 1))
            }}
          >
            ✕
          </Button>
        </div>
      ))}
      <Button
        label={`Add to ${name}`}
        onClick={() => {
          setAdded(added + 1)
          const first = exampleOf(item, root)
          // A person fills an object in: an example of it could be sent unseen.
          set([...items, isSchema(first) && item.default === undefined ? defaultsOf(item) : first])
        }}
      >
        Add
      </Button>
    </fieldset>
  )
}

/** An object. Below the first level, an absent object shows only a button that adds it (rule 3). */
function ObjectControl({
  name,
  schema,
  value,
  label,
  hint,
  missing,
  isRequired,
  root,
  depth,
  onChange,
}: LabelledProps) {
  const isNested = depth > 0
  return (
    <fieldset {...missing}>
      <legend>{label}</legend>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {isNested && value === undefined ? (
        <Button label={`Add ${name}`} onClick={() => onChange({})}>
          Add
        </Button>
      ) : (
        <Members
          schema={schema}
          value={isSchema(value) ? value : {}}
          root={root}
          depth={depth + 1}
          onChange={(next) => onChange(Object.keys(next).length === 0 && !isRequired && !isNested ? undefined : next)}
        />
      )}
      {isNested && value !== undefined && !isRequired && (
        <Button label={`Remove ${name}`} onClick={() => onChange(undefined)}>
          Remove
        </Button>
      )}
    </fieldset>
  )
}

/** A map of names to strings. It has its own rows, because a name may be empty or appear twice while a person types. */
function MapControl({ name, value, label, hint, missing, isRequired, onChange }: LabelledProps) {
  const [rows, setRows] = useState<readonly (readonly [string, unknown])[]>(() =>
    isSchema(value) ? Object.entries(value) : [],
  )
  const set = (next: typeof rows) => {
    setRows(next)
    const named = next.filter(([key]) => key !== "")
    onChange(named.length === 0 && !isRequired ? undefined : Object.fromEntries(named))
  }
  return (
    <fieldset {...missing}>
      <legend>{label}</legend>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {rows.map(([key, one], at) => (
        <div key={at} class="pair">
          <input
            aria-label={`Name ${at + 1} in ${name}`}
            placeholder="NAME"
            spellcheck={false}
            value={key}
            onInput={({ currentTarget }) => set(rows.with(at, [currentTarget.value, one]))}
          />
          <input
            aria-label={`Value of ${key === "" ? `name ${at + 1}` : key} in ${name}`}
            placeholder="value"
            spellcheck={false}
            value={typeof one === "string" ? one : JSON.stringify(one)}
            onInput={({ currentTarget }) => set(rows.with(at, [key, currentTarget.value]))}
          />
          <Button
            kind="quiet"
            label={`Remove ${key === "" ? `name ${at + 1}` : key} from ${name}`}
            onClick={() => set(rows.toSpliced(at, 1))}
          >
            ✕
          </Button>
        </div>
      ))}
      <Button label={`Add to ${name}`} onClick={() => setRows([...rows, ["", ""]])}>
        Add
      </Button>
    </fieldset>
  )
}

/** A control, and the schema that it shows: the schema itself or one of its alternatives. */
type Kind =
  | {
      readonly kind: "choice"
      readonly schema: Schema
      readonly values: readonly unknown[]
      /** What people read in place of a value. */
      readonly titles: readonly (string | undefined)[]
    }
  | { readonly kind: "number" | "text" | "list" | "rows" | "map" | "object" | "json"; readonly schema: Schema }

/** Returns the control for a schema. If the schema has alternatives, the current value selects one. */
function kindOf(schema: Schema, value: unknown, root: Schema, depth: number, hops = 0): Kind {
  const json: Kind = { kind: "json", schema }
  const choice = (values: readonly unknown[], titles: readonly unknown[]): Kind =>
    value === undefined || values.includes(value)
      ? { kind: "choice", schema, values, titles: titles.map((one) => (typeof one === "string" ? one : undefined)) }
      : json
  const choices = alternativesOf(schema, root)
  if (choices !== undefined) {
    if (choices.length > 0 && choices.every((one) => one.const !== undefined))
      return choice(
        choices.map((one) => one.const),
        choices.map(({ title }) => title),
      )
    if (choices.length > MAX_ALTERNATIVES || hops >= MAX_HOPS) return json
    return choices.map((one) => kindOf(one, value, root, depth, hops + 1)).find(({ kind }) => fits(kind, value)) ?? json
  }
  // The titles of an enum are those of MCP until its revision 2025-11-25.
  if (Array.isArray(schema.enum)) return choice(schema.enum, Array.isArray(schema.enumNames) ? schema.enumNames : [])
  if (schema.const !== undefined) return choice([schema.const], [schema.title])
  if (schema.type === "boolean") return choice([true, false], [])
  const kind = plainKind(schema, root, depth, hops)
  return fits(kind, value) ? { kind, schema } : json
}

function plainKind(schema: Schema, root: Schema, depth: number, hops: number): Exclude<Kind["kind"], "choice"> {
  switch (schema.type) {
    case "string":
      return "text"
    case "number":
    case "integer":
      return "number"
    case "array": {
      if (depth >= MAX_DEPTH) return "json"
      const item = resolved(schema.items, root)
      const { kind } = kindOf(item, undefined, root, depth + 1, hops)
      if (kind === "json") return "json"
      return (kind === "text" || kind === "number") && typeof item.type === "string" ? "list" : "rows"
    }
    case "object":
      if (Object.keys(propertiesOf(schema)).length > 0) return isForm(schema) && depth < MAX_DEPTH ? "object" : "json"
      return isTextMap(schema, root) ? "map" : "json"
    default:
      return schema.type === undefined && Object.keys(propertiesOf(schema)).length > 0 && depth < MAX_DEPTH
        ? "object"
        : "json"
  }
}

/** Whether an object has any member names, with strings, numbers or booleans as values. */
function isTextMap({ additionalProperties }: Schema, root: Schema): boolean {
  if (!isSchema(additionalProperties)) return false
  return (alternativesOf(additionalProperties, root) ?? [additionalProperties]).every(({ type }) =>
    ["string", "number", "boolean"].includes(String(type)),
  )
}

/** Whether a control can show a value. */
function fits(kind: Kind["kind"], value: unknown): boolean {
  switch (kind) {
    case "number":
      return value === undefined || typeof value === "number"
    case "text":
      return value === undefined || typeof value === "string"
    case "list":
      return value === undefined || (Array.isArray(value) && value.every((one) => typeof one !== "object"))
    case "map":
      return value === undefined || (isSchema(value) && Object.values(value).every((one) => typeof one !== "object"))
    case "object":
      return value === undefined || isSchema(value)
    case "rows":
      return value === undefined || Array.isArray(value)
    case "choice":
    case "json":
      return true
  }
}

function withMember(object: Readonly<Record<string, unknown>>, name: string, value: unknown) {
  if (value !== undefined) return { ...object, [name]: value }
  const { [name]: _removed, ...rest } = object
  return rest
}
