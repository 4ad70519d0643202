/**
 * Preloaded into the suite. The suite calls a server's tools by their own names; svc's aggregated address has them under
 * the server's prefix. With `SVC_SUITE_ALIAS=<server>`, each request of the suite gets the prefix, and each response
 * loses it.
 */
const alias = process.env.SVC_SUITE_ALIAS
if (alias !== undefined) {
  const names = `${alias}_svc_`
  const uris = `svc://${alias}/`
  const original = globalThis.fetch
  const aliased = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    if (typeof init?.body !== "string") return strip(await original(input, init), names, uris)
    const message = prefix(JSON.parse(init.body), names, uris)
    const headers = new Headers(init.headers)
    const name = headers.get("mcp-name")
    if (name !== null) headers.set("mcp-name", name.includes("://") ? `${uris}${name}` : `${names}${name}`)
    return strip(await original(input, { ...init, headers, body: JSON.stringify(message) }), names, uris)
  }
  globalThis.fetch = Object.assign(aliased, original)
}

type Message = { readonly params?: Record<string, unknown> & { readonly ref?: Record<string, unknown> } }

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
  const own = (text: string) => text.replaceAll(names, "").replaceAll(uris, "")
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
