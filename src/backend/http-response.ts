/**
 * Parses the response to one HTTP/1.1 request as its bytes arrive. RFC 9112.
 *
 *  1. A response whose end could be read in two ways is refused: with two lengths, a length and a transfer coding, or a coding
 *     other than `chunked`.
 *  2. Every part that is buffered has a limit. A body is passed on, not buffered.
 */
export type ResponseHead = {
  readonly status: number
  /** Names, in lower case, and values. */
  readonly headers: HeaderList
  /** The length of the body in bytes; undefined if the response does not say it. */
  readonly length: number | undefined
  /** Whether the connection may carry another request after this response. */
  readonly keepsAlive: boolean
  /** The idle time after which the server says it closes the connection, in milliseconds; undefined if it says nothing. */
  readonly idleMs: number | undefined
}

export type HeaderList = readonly (readonly [name: string, value: string])[]

/** The last head and valid header lines of earlier responses, and what they say, because most are the same each time. */
export type KnownHeads = {
  last: { readonly bytes: Buffer; readonly head: Head } | undefined
  readonly lines: Map<string, HeaderList[number]>
}

export const createKnownHeads = (): KnownHeads => ({ last: undefined, lines: new Map() })

/** Returns the value of a header, joined with commas if it is repeated; undefined if it is absent. */
export function headerIn(headers: HeaderList, name: string): string | undefined {
  let value: string | undefined
  for (const [other, text] of headers) if (other === name) value = value === undefined ? text : `${value}, ${text}`
  return value
}

/** The response is not HTTP/1.1. The message is svc's own, and contains nothing of the response. */
export class InvalidResponseError extends Error {
  readonly code = "ERR_INVALID_HTTP_RESPONSE"
  constructor(fault: string) {
    super(`sent an invalid HTTP response (${fault})`)
  }
}

/** The most bytes of a status line with its headers, and of the trailers. */
export const MAX_HEAD = 64 * 1024

export class ResponseParser {
  /** The head of the response, as soon as it is complete. */
  head: ResponseHead | undefined
  /** Whether the response is complete. */
  isDone = false
  private state: "head" | "length" | "size" | "chunk" | "break" | "trailer" | "close" = "head"
  /** Bytes left of a body of known length or of a chunk. */
  private left = 0
  /** The unfinished head or line. */
  private held: Buffer | undefined
  private trailerBytes = 0
  private interim = 0

  /** `onbody` takes each part of the body, which must not change afterwards. */
  constructor(
    private readonly method: string,
    private readonly onbody: (bytes: Uint8Array) => void,
    private readonly known: KnownHeads = createKnownHeads(),
  ) {}

  /** Takes the next bytes. Returns the number of bytes after the end of the response. Throws an InvalidResponseError. */
  push(chunk: Buffer): number {
    let at = 0
    while (at < chunk.length && !this.isDone) {
      switch (this.state) {
        case "head":
          at = this.takeHead(chunk, at)
          break
        case "length":
        case "chunk":
          at = this.takeBody(chunk, at)
          break
        case "close":
          this.onbody(new Uint8Array(chunk.buffer, chunk.byteOffset + at, chunk.length - at))
          at = chunk.length
          break
        default:
          at = this.takeLine(chunk, at)
      }
    }
    return chunk.length - at
  }

  /** The server has closed the connection. Returns whether that completes the response. */
  end(): boolean {
    if (this.state === "close") this.isDone = true
    return this.isDone
  }

  // ---

  private takeHead(chunk: Buffer, at: number): number {
    const { known } = this
    const { last } = known
    if (at === 0 && this.held === undefined && last !== undefined && startsWith(chunk, last.bytes)) {
      this.begin(last.head)
      return last.bytes.length
    }
    const before = this.held?.length ?? 0
    const rest = at === 0 ? chunk : chunk.subarray(at)
    const bytes = this.held === undefined ? rest : Buffer.concat([this.held, rest])
    const end = endOfHead(bytes, before)
    if ((end < 0 ? bytes.length : end) > MAX_HEAD) throw new InvalidResponseError("its headers are too long")
    if (end < 0) {
      // Chunks may be views of larger buffers.
      this.held = before === 0 ? Buffer.from(bytes) : bytes
      return chunk.length
    }
    this.held = undefined
    const head = parseHead(bytes.toString("latin1", 0, end), known.lines)
    known.last = { bytes: Buffer.from(bytes.subarray(0, end)), head }
    this.begin(head)
    return at + end - before
  }

  /** Begins the body, or the next head after an interim response. */
  private begin(head: Head): void {
    const { status } = head
    if (status < 200) {
      if (status === 101) throw new InvalidResponseError("it switches protocols")
      if (++this.interim > MAX_INTERIM) throw new InvalidResponseError("too many interim responses")
      return
    }
    const { framing } = head
    const isEmpty = this.method === "HEAD" || status === 204 || status === 304
    if (isEmpty || (this.method === "CONNECT" && status < 300)) this.isDone = true
    else if (framing === "length") {
      this.state = "length"
      this.left = head.length ?? 0
      this.isDone = head.length === 0
    } else if (framing instanceof InvalidResponseError) throw framing
    else this.state = framing
    this.head = isEmpty ? { ...head, length: 0 } : head
    if (this.state === "close") this.head = { ...this.head, keepsAlive: false }
  }

  private takeBody(chunk: Buffer, at: number): number {
    const end = Math.min(chunk.length, at + this.left)
    this.left -= end - at
    if (end > at) this.onbody(new Uint8Array(chunk.buffer, chunk.byteOffset + at, end - at))
    if (this.left === 0) {
      if (this.state === "chunk") this.state = "break"
      else this.isDone = true
    }
    return end
  }

  /** Takes a line of a chunked body: the size of a chunk, the break after a chunk, or a trailer. */
  private takeLine(chunk: Buffer, at: number): number {
    const end = chunk.indexOf(LF, at)
    const part = chunk.subarray(at, end < 0 ? chunk.length : end)
    if ((this.held?.length ?? 0) + part.length > MAX_LINE) throw new InvalidResponseError("a line is too long")
    const bytes = this.held === undefined ? part : Buffer.concat([this.held, part])
    if (end < 0) {
      this.held = Buffer.from(bytes)
      return chunk.length
    }
    this.held = undefined
    const isWhole = bytes.length > 0 && bytes[bytes.length - 1] === CR
    this.endLine(bytes.toString("latin1", 0, isWhole ? bytes.length - 1 : bytes.length), isWhole)
    return end + 1
  }

  private endLine(line: string, hasCr: boolean): void {
    if (!hasCr) throw new InvalidResponseError("a line of a chunk ends without CR")
    if (this.state === "size") {
      const size = CHUNK_SIZE.exec(line)?.[1]
      if (size === undefined) throw new InvalidResponseError("the size of a chunk")
      this.left = Number.parseInt(size, 16)
      this.state = this.left === 0 ? "trailer" : "chunk"
    } else if (this.state === "break") {
      if (line !== "") throw new InvalidResponseError("a chunk is longer than its size")
      this.state = "size"
    } else if (line === "") this.isDone = true
    else {
      this.trailerBytes += line.length
      if (this.trailerBytes > MAX_HEAD) throw new InvalidResponseError("its trailers are too long")
    }
  }
}

// ---

/** A head, and how its body ends: after `length` bytes, with the last chunk, or with the connection; else why that is unclear. */
type Head = ResponseHead & { readonly framing: "length" | "size" | "close" | InvalidResponseError }

const CR = 0x0d
const LF = 0x0a
const MAX_LINE = 8 * 1024
const MAX_INTERIM = 16
/** The longest idle time that svc relies on: the devices in between forget quiet connections after a few minutes. */
const MAX_IDLE_MS = 60_000

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\0\r\n]*)?\r?\n/
const MAX_KNOWN = 200
const MAX_KNOWN_LENGTH = 200
const CONTROLS = /[\0\r\n]/
const NAME = /^[!#$%&'*+\-.^_`|~\w]+$/
const CHUNK_SIZE = /^([\da-f]{1,12})[ \t]*(?:;.*)?$/i

/** Returns the index after the empty line that ends a head, or -1. The first `searched` bytes contain no end. */
function endOfHead(bytes: Buffer, searched: number): number {
  for (let at = bytes.indexOf(LF, Math.max(0, searched - 2)); at >= 0; at = bytes.indexOf(LF, at + 1)) {
    if (bytes[at + 1] === LF) return at + 2
    if (bytes[at + 1] === CR && bytes[at + 2] === LF) return at + 3
  }
  return -1
}

const startsWith = (bytes: Buffer, start: Buffer): boolean =>
  bytes.length >= start.length && bytes.compare(start, 0, start.length, 0, start.length) === 0

function parseHead(text: string, known: KnownHeads["lines"]): Head {
  const [first, minor, status] = STATUS_LINE.exec(text) ?? []
  if (first === undefined || status === undefined) throw new InvalidResponseError("its first line")
  const headers: HeaderList[number][] = []
  for (let at = first.length; ; ) {
    const end = text.indexOf("\n", at)
    const line = text.slice(at, end)
    // The empty line is the last one.
    if (line === "\r" || line === "") break
    at = end + 1
    const last = headers.at(-1)
    // A value that goes on in the next line is obsolete. From: RFC 9112, 5.2.
    if (last !== undefined && isBlank(line.charCodeAt(0))) {
      const more = valueIn(line, 0)
      headers[headers.length - 1] = [last[0], last[1] === "" || more === "" ? last[1] + more : `${last[1]} ${more}`]
      continue
    }
    let header = known.get(line)
    if (header === undefined) {
      header = parseLine(line)
      if (known.size >= MAX_KNOWN) known.clear()
      if (line.length <= MAX_KNOWN_LENGTH) known.set(line, header)
    }
    headers.push(header)
  }
  return framed(Number(status), minor === "1", headers)
}

function framed(status: number, isLatest: boolean, headers: HeaderList): Head {
  // An interim response has no body.
  if (status < 200) return { status, headers, length: undefined, keepsAlive: true, idleMs: undefined, framing: "close" }
  const length = lengthIn(headers)
  const keepsAlive = keepsConnection(headers, isLatest)
  return { status, headers, length, keepsAlive, idleMs: idleTimeIn(headers), framing: framingOf(headers, length) }
}

function framingOf(headers: HeaderList, length: number | undefined): Head["framing"] {
  const coding = headerIn(headers, "transfer-encoding")?.toLowerCase()
  if (coding === undefined) return length === undefined ? "close" : "length"
  if (length !== undefined) return new InvalidResponseError("a length and a transfer coding")
  return coding === "chunked" ? "size" : new InvalidResponseError("an unknown transfer coding")
}

function parseLine(line: string): HeaderList[number] {
  const colon = line.indexOf(":")
  const name = line.slice(0, Math.max(0, colon))
  if (!NAME.test(name)) throw new InvalidResponseError("the name of a header")
  return [name.toLowerCase(), valueIn(line, colon + 1)]
}

/** Returns the value that begins at `from` in a line. */
function valueIn(line: string, from: number): string {
  const value = trimmed(line, from, line.endsWith("\r") ? line.length - 1 : line.length)
  if (CONTROLS.test(value)) throw new InvalidResponseError("the value of a header")
  return value
}

/** Returns a part of a text without the spaces and tabs around it. */
function trimmed(line: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && isBlank(line.charCodeAt(start))) start++
  while (end > start && isBlank(line.charCodeAt(end - 1))) end--
  return line.slice(start, end)
}

const isBlank = (code: number): boolean => code === 0x20 || code === 0x09

/** Returns the length of the body; undefined without a header. Throws for anything but one number, which may be repeated. */
function lengthIn(headers: HeaderList): number | undefined {
  const text = headerIn(headers, "content-length")
  if (text === undefined) return undefined
  if (/^\d{1,15}$/.test(text)) return Number(text)
  const [first = "", ...others] = text.split(",").map((one) => one.trim())
  if (!/^\d{1,15}$/.test(first) || others.some((other) => other !== first))
    throw new InvalidResponseError("the length of its body")
  return Number(first)
}

function keepsConnection(headers: HeaderList, isLatest: boolean): boolean {
  const text = headerIn(headers, "connection")
  if (text === undefined) return isLatest
  const options = text
    .toLowerCase()
    .split(",")
    .map((one) => one.trim())
  return !options.includes("close") && (isLatest || options.includes("keep-alive"))
}

/** Returns the `timeout` of a Keep-Alive header in milliseconds. */
function idleTimeIn(headers: HeaderList): number | undefined {
  const text = headerIn(headers, "keep-alive")
  const seconds = text === undefined ? undefined : /(?:^|[,;\s])timeout\s?=\s?"?(\d{1,9})/i.exec(text)?.[1]
  return seconds === undefined ? undefined : Math.min(Number(seconds) * 1000, MAX_IDLE_MS)
}
