/**
 * Preloaded into the suite. The suite calls a server's tools by their own names; svc's aggregated address has them under
 * the server's prefix. With `SVC_SUITE_ALIAS=<server>`, each request of the suite gets the prefix, and each response
 * loses it.
 */
import http from "node:http"

const alias = process.env.SVC_SUITE_ALIAS
if (alias !== undefined) {
  const names = `${alias}_svc_`
  const uris = `svc://${alias}/`
  const original = globalThis.fetch
  const aliased = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    if (typeof init?.body !== "string") return strip(await original(input, init), names, uris)
    const sent = prefix(JSON.parse(init.body), names, uris)
    const headers = new Headers(init.headers)
    const name = headers.get("mcp-name")
    if (name !== null) headers.set("mcp-name", prefixHeader(sent, name, names, uris))
    return strip(await original(input, { ...init, headers, body: JSON.stringify(sent) }), names, uris)
  }
  globalThis.fetch = Object.assign(aliased, original)

  // The scenarios of headers write these requests, because fetch would change their headers.
  const request = http.request as (options: RawOptions, respond: unknown) => http.ClientRequest
  http.request = ((options: RawOptions, respond: unknown) => {
    let body = ""
    let onerror: (error: Error) => void = () => undefined
    return {
      on(_event: "error", listener: (error: Error) => void) {
        onerror = listener
      },
      write(text: string) {
        body += text
      },
      end() {
        const sent = prefix(JSON.parse(body), names, uris)
        const text = JSON.stringify(sent)
        const headers = Object.entries(options.headers).map(([key, value]) => {
          if (/^content-length$/i.test(key)) return [key, Buffer.byteLength(text)]
          return [key, /^mcp-name$/i.test(key) ? prefixHeader(sent, String(value), names, uris) : value]
        })
        const real = request({ ...options, headers: Object.fromEntries(headers) }, respond)
        real.on("error", onerror)
        real.end(text)
      },
    }
  }) as never
}

/** The requests whose `Mcp-Name` is a name or a URI. That of other requests is the id of a task. */
const NAMING = /^(?:tools\/call|prompts\/get|resources\/read)$/

type RawOptions = { readonly headers: Readonly<Record<string, string | number>> }
type Message = {
  readonly method?: string
  readonly params?: Record<string, unknown> & { readonly ref?: Record<string, unknown> }
}

/** Returns the header `Mcp-Name` of a message, with the space around it, as svc's aggregated address wants it. */
const prefixHeader = ({ method = "" }: Message, value: string, names: string, uris: string): string =>
  NAMING.test(method) ? value.replace(/\S/, value.includes("://") ? `${uris}$&` : `${names}$&`) : value

/** Returns the message with its names of tools and prompts, and its URIs, as svc's aggregated address has them. */
function prefix(message: Message, names: string, uris: string): Message {
  const { params } = message
  if (typeof params !== "object" || params === null) return message
  const renamed = (members: Record<string, unknown>) => ({
    ...members,
    ...(typeof members.name === "string" ? { name: `${names}${members.name}` } : {}),
    ...(typeof members.uri === "string" ? { uri: `${uris}${members.uri}` } : {}),
  })
  const ref = typeof params.ref === "object" ? { ref: renamed(params.ref) } : {}
  return { ...message, params: { ...renamed(params), ...ref } }
}

/** Returns the response without the prefixes, line by line, so that streams stay streams. */
function strip(response: Response, names: string, uris: string): Response {
  if (response.body === null) return response
  let rest = ""
  // The id of a task stays as it is, because the suite sends it back.
  const prefixes = new RegExp(`(?<!"taskId":")${names}`, "g")
  const own = (text: string) => text.replace(prefixes, "").replaceAll(uris, "")
  const lines = new TransformStream<string, string>({
    transform(chunk, controller) {
      const [last = "", ...others] = `${rest}${chunk}`.split("\n").reverse()
      rest = last
      for (const line of others.reverse()) controller.enqueue(`${own(line)}\n`)
    },
    flush: (controller) => controller.enqueue(own(rest)),
  })
  const body = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(lines)
    .pipeThrough(new TextEncoderStream())
  const headers = new Headers(response.headers)
  headers.delete("content-length")
  return new Response(body, { status: response.status, statusText: response.statusText, headers })
}
