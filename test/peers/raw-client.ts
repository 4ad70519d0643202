/** A client of bare JSON-RPC messages, which keeps each result as the server wrote it. */

export type RawClient = AsyncDisposable & {
  /** Resolves with the whole response, or with undefined if the server ends or does not answer in time. */
  request(method: string, params?: object): Promise<Response | undefined>
}

type Response = { readonly result?: Record<string, unknown>; readonly error?: unknown }

/** What svc tells servers about itself, so that they offer the same to both. */
const INITIALIZE = {
  protocolVersion: "2025-11-25",
  capabilities: { roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} } },
  clientInfo: { name: "peers", version: "1" },
}
const ANSWER_MS = 60_000

/** Starts a server as a child process and initializes it. Resolves with undefined if it does not start. */
export async function connectStdio(
  cmd: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Record<string, string> },
): Promise<RawClient | undefined> {
  const child = Bun.spawn({ cmd: [...cmd], cwd, env, stdin: "pipe", stdout: "pipe", stderr: "ignore" })
  const waiting = new Map<number, (response: Response | undefined) => void>()
  let next = 1
  let ended = false
  const send = (message: object) => {
    // Its end may come between the check and the write.
    try {
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
      child.stdin.flush()
    } catch {
      ended = true
    }
  }
  void (async () => {
    let rest = ""
    for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = `${rest}${chunk}`.split("\n")
      rest = lines.pop() ?? ""
      for (const message of lines.flatMap(parsed)) {
        if (message.method !== undefined && message.id !== undefined)
          send({ id: message.id, ...(message.method === "roots/list" ? { result: { roots: [] } } : { result: {} }) })
        else if (typeof message.id === "number") waiting.get(message.id)?.(message)
      }
    }
    ended = true
    for (const settle of waiting.values()) settle(undefined)
  })()
  const client: RawClient = {
    request(method, params = {}) {
      const id = next++
      if (ended) return Promise.resolve(undefined)
      const answer = new Promise<Response | undefined>((resolve) => waiting.set(id, resolve))
      send({ id, method, params })
      return Promise.race([answer, Bun.sleep(ANSWER_MS).then(() => undefined)])
    },
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL")
      await child.exited
    },
  }
  if ((await client.request("initialize", INITIALIZE)) === undefined) {
    await client[Symbol.asyncDispose]()
    return undefined
  }
  send({ method: "notifications/initialized" })
  return client
}

/** Opens a session over Streamable HTTP. */
export async function connectHttp(url: string): Promise<RawClient> {
  const headers: Record<string, string> = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  }
  const post = async (message: object) => {
    const body = JSON.stringify({ jsonrpc: "2.0", ...message })
    const response = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(ANSWER_MS) })
    return { response, text: await response.text() }
  }
  let next = 1
  const request = async (method: string, params: object = {}) => {
    const id = next++
    const { response, text } = await post({ id, method, params })
    const session = response.headers.get("mcp-session-id")
    if (session !== null) headers["mcp-session-id"] = session
    const lines = text.split("\n").map((line) => line.replace(/^data: ?/, ""))
    return lines.flatMap(parsed).find((message) => message.id === id)
  }
  await request("initialize", INITIALIZE)
  headers["mcp-protocol-version"] = INITIALIZE.protocolVersion
  await post({ method: "notifications/initialized" })
  return {
    request,
    async [Symbol.asyncDispose]() {
      await fetch(url, { method: "DELETE", headers })
    },
  }
}

// ---

function parsed(line: string): readonly (Response & { id?: unknown; method?: unknown })[] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}
