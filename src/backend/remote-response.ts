/**
 * The response to a request of svc's HTTP client, whose status, headers and body are read as they arrive. A `Response` is made of
 * it only for what needs one: with its stream, it costs more than the rest of a short exchange.
 */
import { type HeaderList, headerIn, InvalidResponseError, type ResponseHead } from "./http-response.ts"

/** Takes a part of a body, which does not change afterwards. Returns a promise to get the next part later. */
export type TakePart = (part: Uint8Array) => Promise<void> | undefined

/** The body of a response. */
export type BodySource = {
  /** The whole body, if it has arrived and nobody has read it. */
  readonly whole: Uint8Array | undefined
  /** Passes on the parts of the body. Rejects if it breaks off, or with what `take` throws. */
  read(take: TakePart): Promise<void>
  /** Drops what is left of the body. */
  cancel(): void
}

export class RemoteResponse {
  /** The address after a redirect; "" without one. */
  readonly url: string = ""
  readonly headers: Pick<Headers, "get" | "has">
  private full: Response | undefined

  /** Throws an InvalidResponseError for an unknown content coding. */
  constructor(
    private readonly head: ResponseHead,
    private readonly source: BodySource,
  ) {
    this.headers = new HeaderView(head.headers)
    if (headerIn(head.headers, "content-encoding") !== undefined) this.full = responseOf(head, source)
  }

  get status(): number {
    return this.head.status
  }

  get ok(): boolean {
    return this.head.status >= 200 && this.head.status < 300
  }

  /** The values of the Set-Cookie headers. */
  get cookies(): readonly string[] {
    const { headers } = this.head
    if (headerIn(headers, "set-cookie") === undefined) return NO_COOKIES
    return headers.filter(([name]) => name === "set-cookie").map(([, value]) => value)
  }

  /** The whole body, if it has arrived and needs no decoding. */
  get whole(): Uint8Array | undefined {
    return this.full === undefined ? this.source.whole : undefined
  }

  get body(): Response["body"] {
    return this.full === undefined && this.source.whole?.length === 0 ? null : this.response.body
  }

  /** The same as a `Response`. */
  get response(): Response {
    this.full ??= responseOf(this.head, this.source)
    return this.full
  }

  /** Passes on the parts of the body, decoded. Rejects if it breaks off, or with what `take` throws. */
  read(take: TakePart): Promise<void> {
    return this.full === undefined ? this.source.read(take) : readParts(this.full, take)
  }

  clone(): Pick<Response, "body"> {
    return this.response.clone()
  }

  text(): Promise<string> {
    return this.response.text()
  }
}

/** Passes on the parts of a body. Rejects if it breaks off, or with what `take` throws. */
export async function readParts({ body }: Pick<Response, "body">, take: TakePart): Promise<void> {
  for await (const part of body ?? []) {
    const waiting = take(part)
    if (waiting !== undefined) await waiting
  }
}

// ---

class HeaderView implements Pick<Headers, "get" | "has"> {
  constructor(private readonly headers: HeaderList) {}

  get(name: string): string | null {
    return headerIn(this.headers, name) ?? null
  }

  has(name: string): boolean {
    return headerIn(this.headers, name) !== undefined
  }
}

const NO_COOKIES: readonly string[] = []
/** Bytes of a stream that wait for their reader. */
const MAX_STREAMED = 64 * 1024
const MAX_CODINGS = 3
/** Headers of a response that say nothing to those who read it. */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set(["connection", "keep-alive", "transfer-encoding"])
/** The statuses whose responses have no body. */
const NO_BODY = [204, 205, 304]
/** Content codings, as the runtime calls them. */
const FORMATS: Readonly<Record<string, string>> = {
  gzip: "gzip",
  "x-gzip": "gzip",
  deflate: "deflate",
  br: "brotli",
  zstd: "zstd",
}

/** Returns a response, with its body decoded. Throws an InvalidResponseError for an unknown content coding. */
function responseOf({ status, headers }: ResponseHead, source: BodySource): Response {
  const { whole } = source
  const isEmpty = NO_BODY.includes(status) || whole?.length === 0
  const coding = headerIn(headers, "content-encoding")
  const body = isEmpty ? null : ((whole as Uint8Array<ArrayBuffer> | undefined) ?? streamOf(source))
  const content = body === null || coding === undefined ? body : decoded(body, coding)
  const response = new Response(content, { status })
  // Headers that are passed to the constructor are copied.
  for (const [name, value] of headers) if (!CONNECTION_HEADERS.has(name)) response.headers.append(name, value)
  return response
}

function streamOf(source: BodySource): ReadableStream<Uint8Array<ArrayBuffer>> {
  let goOn: () => void = () => undefined
  const stream = {
    start(controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>) {
      const take = (part: Uint8Array) => {
        controller.enqueue(part as Uint8Array<ArrayBuffer>)
        if ((controller.desiredSize ?? 0) > 0) return undefined
        return new Promise<void>((resolve) => {
          goOn = resolve
        })
      }
      source.read(take).then(
        () => controller.close(),
        (error: unknown) => controller.error(error),
      )
    },
    pull: () => goOn(),
    cancel: () => source.cancel(),
  }
  return new ReadableStream(stream, { highWaterMark: MAX_STREAMED, size: (part) => part?.byteLength ?? 0 })
}

function decoded(
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>>,
  codings: string,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const names = codings.toLowerCase().split(",", MAX_CODINGS + 1)
  if (names.length > MAX_CODINGS) throw new InvalidResponseError("too many content codings")
  let stream = new Response(body).body as ReadableStream<Uint8Array<ArrayBuffer>>
  for (const name of names.reverse()) {
    const coding = name.trim()
    if (coding === "" || coding === "identity") continue
    const format = FORMATS[coding]
    if (format === undefined) throw new InvalidResponseError("an unknown content coding")
    stream = stream.pipeThrough(new DecompressionStream(format as "gzip"))
  }
  return stream
}
