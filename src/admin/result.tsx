/** The result of a tool call. The page renders data of a server only as text, a table of texts, or an image. */
import { useLayoutEffect, useRef, useState } from "preact/hooks"
import { Button, Facts, Json, latencyText, Table } from "./parts.tsx"

export type CallResult = Readonly<Record<string, unknown>>

/** Renders a CallToolResult. A new one comes into sight, also below a long form. */
export function Result({ result, ms, title = "Result" }: { result: CallResult; ms: number; title?: string }) {
  const [isRaw, setRaw] = useState(false)
  const element = useRef<HTMLElement>(null)
  useLayoutEffect(() => {
    if (title === "Result") element.current?.scrollIntoView({ block: "nearest" })
  }, [])
  const content = Array.isArray(result.content) ? result.content.filter(isObject) : []
  const isError = result.isError === true
  // Servers repeat structured content, or its only member, as text, for clients that do not support structured content.
  const { structuredContent: structured } = result
  const members = isObject(structured) ? Object.values(structured) : []
  const repeated = new Set([structured, ...(members.length === 1 ? members : [])].map((one) => JSON.stringify(one)))
  const isDistinct = ({ text }: CallResult) =>
    structured === undefined || typeof text !== "string" || !repeated.has(JSON.stringify(parsed(text) ?? text))
  const distinct = content.filter(isDistinct)
  return (
    <section ref={element} class="panel" aria-label={title}>
      <div class="head">
        <h2 class={isError ? "error-text" : ""}>
          {isError ? "The tool reports an error" : title} <span class="soft">{latencyText(ms)}</span>
        </h2>
        <Button pressed={isRaw} onClick={() => setRaw(!isRaw)}>
          Raw
        </Button>
      </div>
      {isRaw ? (
        <Json value={result} />
      ) : (
        <>
          {distinct.map((item, at) => (
            <Content key={at} item={item} />
          ))}
          {result.structuredContent !== undefined && (
            <>
              {distinct.length > 0 && <h3>structuredContent</h3>}
              <Value value={result.structuredContent} />
            </>
          )}
          {content.length === 0 && result.structuredContent === undefined && <p class="soft">The result is empty.</p>}
        </>
      )}
    </section>
  )
}

// ---

function Content({ item }: { item: CallResult }) {
  const { type, text, data, mimeType, uri, resource } = item
  if (type === "text" && typeof text === "string") {
    const value = parsed(text)
    return value === undefined ? <pre class="code">{text}</pre> : <Value value={value} />
  }
  if (type === "image" && typeof data === "string") {
    const kind = String(mimeType)
    // An image cannot run scripts, because the browser loads it only as data.
    if (IMAGE.test(kind) && BASE64.test(data))
      return <img class="result" src={`data:${kind};base64,${data}`} alt={`Result of the type ${kind}`} />
  }
  if (type === "resource_link")
    return (
      <p>
        Resource <code>{String(uri)}</code> {typeof item.name === "string" && item.name}
      </p>
    )
  if (type === "resource" && isObject(resource) && typeof resource.text === "string")
    return (
      <>
        <p>
          Resource <code>{String(resource.uri)}</code>
        </p>
        <pre class="code">{resource.text}</pre>
      </>
    )
  return <Json value={item} />
}

/** A value: names and values for a flat object, a table for a list of them or an object with only such a list, else JSON. */
function Value({ value }: { value: unknown }) {
  const rows = rowsOf(value)
  if (rows === undefined && isFlat(value))
    return <Facts rows={Object.entries(value).map(([name, one]) => [name, cellText(one)] as const)} />
  if (rows === undefined) return <Json value={value} />
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, MAX_COLUMNS)
  return (
    <Table<{ readonly row: CallResult; readonly at: number }>
      caption="Result"
      items={rows.map((row, at) => ({ row, at }))}
      keyOf={({ at }) => String(at)}
      columns={columns.map((title) => ({
        title,
        kind: rows.every((row) => typeof row[title] === "number") ? ("number" as const) : undefined,
        draw: ({ row }) => cellText(row[title]),
      }))}
    />
  )
}

const IMAGE = /^image\/[\w.+-]{1,40}$/
const BASE64 = /^[\w+/=\s-]*$/
const MAX_COLUMNS = 20

function rowsOf(value: unknown): readonly CallResult[] | undefined {
  const members = isObject(value) ? Object.values(value) : []
  const list = members.length === 1 ? members[0] : value
  if (!Array.isArray(list) || list.length === 0 || !list.every(isObject)) return undefined
  return list.every(isFlat) ? list : undefined
}

/** Whether a value is an object without nested objects. */
const isFlat = (value: unknown): value is CallResult =>
  isObject(value) && Object.values(value).every((one) => typeof one !== "object" || one === null || isTexts(one))

const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one !== "object")

function cellText(value: unknown): string {
  if (value === undefined || value === null) return ""
  return Array.isArray(value) ? value.join(", ") || "none" : String(value)
}

/** Parses a text if it is a JSON object or array; otherwise returns undefined. */
function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is CallResult =>
  typeof value === "object" && value !== null && !Array.isArray(value)
