/**
 * A form generated from a JSON Schema, for the settings of a server and the arguments of a tool.
 *
 *  1. A value that no control can show is edited as JSON text, so that a person can enter any value.
 *  2. An empty field means an absent value, unless the schema requires a string.
 *  3. Schemas come from servers, so the form follows only a few references, and shows large schemas as JSON text.
 */
import { useState } from "preact/hooks"
import { Button, Field } from "./parts.tsx"

export type Schema = Readonly<Record<string, unknown>>

type ControlProps = {
  readonly name: string
  readonly schema: Schema
  readonly value: unknown
  readonly isRequired: boolean
  /** Called with undefined for an absent value. */
  onChange(value: unknown): void
}

type FormProps = {
  /** The schema of an object. */
  readonly schema: Schema
  readonly value: Readonly<Record<string, unknown>>
  /** The members that are always visible; the others are under "More settings". */
  readonly first?: readonly string[]
  onChange(value: Readonly<Record<string, unknown>>): void
}

/** A form with one control for each member of an object. */
export function SchemaForm({ schema, value, first, onChange }: FormProps) {
  const properties = propertiesOf(schema)
  const required = namesIn(schema.required)
  const names = Object.keys(properties)
  const isFirst = (name: string) => first === undefined || first.includes(name)
  const rest = names.filter((name) => !isFirst(name))
  const stray = Object.keys(value).filter((name) => !names.includes(name))
  const draw = (name: string) => (
    <Control
      key={name}
      name={name}
      schema={resolved(properties[name] ?? {}, schema)}
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
export function JsonField({ label, value, hint, rows = 8, onChange }: JsonFieldProps) {
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
            aria-invalid={problem !== undefined}
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
  readonly hint?: string | undefined
  readonly rows?: number
  onChange(value: unknown): void
}

/** Returns the default values of an object schema. */
export function defaultsOf(schema: Schema): Readonly<Record<string, unknown>> {
  const given = Object.entries(propertiesOf(schema)).flatMap(([name, property]) =>
    isSchema(property) && property.default !== undefined ? [[name, property.default] as const] : [],
  )
  return Object.fromEntries(given)
}

/** Whether a schema is small enough for a form. */
export const isForm = (schema: Schema): boolean => Object.keys(propertiesOf(schema)).length <= MAX_MEMBERS

// ---

const MAX_MEMBERS = 80
const MAX_REFERENCES = 5

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
  const { name, schema, value, isRequired, onChange } = props
  const kind = kindOf(schema, value)
  const label = isRequired ? `${name} (required)` : name
  const hint = typeof schema.description === "string" ? schema.description : undefined
  switch (kind.kind) {
    case "choice":
      return (
        <Field label={label} hint={hint}>
          {(id, describedBy) => (
            <select
              id={id}
              aria-describedby={describedBy}
              value={value === undefined ? "" : JSON.stringify(value)}
              onChange={({ currentTarget }) =>
                onChange(currentTarget.value === "" ? undefined : JSON.parse(currentTarget.value))
              }
            >
              <option value="">
                {schema.default === undefined ? "not set" : `not set (${String(schema.default)})`}
              </option>
              {kind.values.map((one) => (
                <option key={JSON.stringify(one)} value={JSON.stringify(one)}>
                  {typeof one === "string" ? one : JSON.stringify(one)}
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
              type="number"
              step={schema.type === "integer" ? 1 : "any"}
              aria-describedby={describedBy}
              value={typeof value === "number" ? value : ""}
              onInput={({ currentTarget }) =>
                onChange(currentTarget.value === "" ? undefined : Number(currentTarget.value))
              }
            />
          )}
        </Field>
      )
    case "text":
      return (
        <Field label={label} hint={hint}>
          {(id, describedBy) => (
            <textarea
              id={id}
              rows={1}
              class="grows"
              spellcheck={false}
              aria-describedby={describedBy}
              value={value === undefined ? "" : String(value)}
              onInput={({ currentTarget }) =>
                onChange(currentTarget.value === "" && !isRequired ? undefined : currentTarget.value)
              }
            />
          )}
        </Field>
      )
    case "list":
      return <ListControl {...props} label={label} hint={hint} />
    case "map":
      return <MapControl {...props} label={label} hint={hint} />
    case "object":
      return (
        <fieldset>
          <legend>{label}</legend>
          {hint !== undefined && <p class="hint">{hint}</p>}
          <SchemaForm
            schema={schema}
            value={isSchema(value) ? value : {}}
            onChange={(next) => onChange(Object.keys(next).length === 0 && !isRequired ? undefined : next)}
          />
        </fieldset>
      )
    case "json":
      return <JsonField label={`${label}, as JSON`} hint={hint} value={value} rows={3} onChange={onChange} />
  }
}

type LabelledProps = ControlProps & { readonly label: string; readonly hint: string | undefined }

/** A list of strings or numbers. */
function ListControl({ name, schema, value, label, hint, isRequired, onChange }: LabelledProps) {
  const items = Array.isArray(value) ? value : []
  const isNumber = isSchema(schema.items) && ["number", "integer"].includes(String(schema.items.type))
  const set = (next: readonly unknown[]) => onChange(next.length === 0 && !isRequired ? undefined : next)
  return (
    <fieldset>
      <legend>{label}</legend>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {items.map((item, at) => (
        <div key={at} class="item">
          <input
            aria-label={`${name} ${at + 1}`}
            {...(isNumber ? { type: "number", step: "any" } : {})}
            spellcheck={false}
            value={String(item)}
            onInput={({ currentTarget: { value: text } }) =>
              // An empty field stays empty until the person types another number.
              set(items.with(at, isNumber && text !== "" ? Number(text) : text))
            }
          />
          <Button kind="quiet" label={`Remove ${name} ${at + 1}`} onClick={() => set(items.toSpliced(at, 1))}>
            ✕
          </Button>
        </div>
      ))}
      <Button label={`Add to ${name}`} onClick={() => set([...items, isNumber ? 0 : ""])}>
        Add
      </Button>
    </fieldset>
  )
}

/** A map of names to strings. It has its own rows, because a name may be empty or appear twice while a person types. */
function MapControl({ name, value, label, hint, onChange }: LabelledProps) {
  const [rows, setRows] = useState<readonly (readonly [string, unknown])[]>(() =>
    isSchema(value) ? Object.entries(value) : [],
  )
  const set = (next: typeof rows) => {
    setRows(next)
    const named = next.filter(([key]) => key !== "")
    onChange(named.length === 0 ? undefined : Object.fromEntries(named))
  }
  return (
    <fieldset>
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

type Kind =
  | { readonly kind: "choice"; readonly values: readonly unknown[] }
  | { readonly kind: "number" | "text" | "list" | "map" | "object" | "json" }

/** Returns the control for a schema. If the schema has alternatives, the current value selects one. */
function kindOf(schema: Schema, value: unknown): Kind {
  const choices = alternatives(schema)
  if (choices !== undefined) {
    const kinds = choices.map((one) => kindOf(one, value))
    const fitting = kinds.filter(({ kind }) => fits(kind, value))
    return fitting[0] ?? { kind: "json" }
  }
  if (Array.isArray(schema.enum)) return fitsChoice({ kind: "choice", values: schema.enum }, value)
  if (schema.const !== undefined) return fitsChoice({ kind: "choice", values: [schema.const] }, value)
  const kind = plainKind(schema)
  if (kind === "boolean") return fitsChoice({ kind: "choice", values: [true, false] }, value)
  return { kind: fits(kind, value) ? kind : "json" }
}

function plainKind(schema: Schema): "boolean" | Exclude<Kind["kind"], "choice"> {
  switch (schema.type) {
    case "boolean":
      return "boolean"
    case "string":
      return "text"
    case "number":
    case "integer":
      return "number"
    case "array": {
      const type = isSchema(schema.items) ? String(schema.items.type) : ""
      return ["string", "number", "integer"].includes(type) ? "list" : "json"
    }
    case "object":
      if (Object.keys(propertiesOf(schema)).length > 0) return isForm(schema) ? "object" : "json"
      return isTextMap(schema) ? "map" : "json"
    default:
      return schema.type === undefined && Object.keys(propertiesOf(schema)).length > 0 ? "object" : "json"
  }
}

/** Whether an object has any member names, with strings, numbers or booleans as values. */
function isTextMap({ additionalProperties }: Schema): boolean {
  if (!isSchema(additionalProperties)) return false
  return (alternatives(additionalProperties) ?? [additionalProperties]).every(({ type }) =>
    ["string", "number", "boolean"].includes(String(type)),
  )
}

/** Returns the alternatives of a schema without null, because the form shows null as an absent value. */
const alternatives = (schema: Schema): readonly Schema[] | undefined => {
  const { anyOf, oneOf, type: types } = schema
  if (Array.isArray(types)) return types.filter((type) => type !== "null").map((type) => ({ ...schema, type }))
  const list = Array.isArray(anyOf) ? anyOf : oneOf
  return Array.isArray(list) ? list.filter(isSchema).filter(({ type }) => type !== "null") : undefined
}

/** Whether a control can show a value. */
function fits(kind: Kind["kind"] | "boolean", value: unknown): boolean {
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
    case "choice":
    case "boolean":
    case "json":
      return true
  }
}

const fitsChoice = (choice: Extract<Kind, { kind: "choice" }>, value: unknown): Kind =>
  value === undefined || choice.values.includes(value) ? choice : { kind: "json" }

/** Resolves the reference of a schema into `root`. */
function resolved(schema: unknown, root: Schema): Schema {
  let found: unknown = schema
  for (let hop = 0; hop < MAX_REFERENCES; hop++) {
    if (!isSchema(found) || typeof found.$ref !== "string") break
    const place = found.$ref.replace(/^#\/?/, "").split("/")
    found = place.reduce<unknown>(
      (inner, part) => (isSchema(inner) && Object.hasOwn(inner, part) ? inner[part] : {}),
      root,
    )
  }
  return isSchema(found) ? found : {}
}

const propertiesOf = ({ properties }: Schema): Readonly<Record<string, unknown>> =>
  isSchema(properties) ? properties : {}

const namesIn = (value: unknown): readonly string[] => (Array.isArray(value) ? value.map(String) : [])

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

function withMember(object: Readonly<Record<string, unknown>>, name: string, value: unknown) {
  if (value !== undefined) return { ...object, [name]: value }
  const { [name]: _removed, ...rest } = object
  return rest
}
