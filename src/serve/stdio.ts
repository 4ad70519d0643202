/** MCP over svc's own stdin and stdout, for clients that start a command. basic: stdio. */
import { Pipe, type PipeDeps } from "../session/pipe.ts"
import { decode, encode } from "../wire/frame.ts"
import { createSplitter } from "../wire/lines.ts"

export type Streams = {
  readonly input: AsyncIterable<Uint8Array>
  write(bytes: Uint8Array): void
}

/** Serves until the input ends. */
export async function serveStdio(streams: Streams, deps: Omit<PipeDeps, "send">, limit: number): Promise<void> {
  const pipe = new Pipe({
    ...deps,
    send(frame) {
      const bytes = typeof frame === "string" ? encode(frame) : frame
      const line = new Uint8Array(bytes.length + 1)
      line.set(bytes)
      // A frame passed on from a remote backend may have line breaks between its tokens.
      for (let at = line.indexOf(LF); at >= 0; at = line.indexOf(LF, at + 1)) line[at] = SPACE
      line[bytes.length] = LF
      streams.write(line)
    },
  })
  const feed = createSplitter(
    (line) => pipe.receive(decode(line)),
    limit,
    () => pipe.receive(""),
  )
  for await (const chunk of streams.input) feed(chunk)
  pipe.close("the client is gone")
}

// ---

const LF = 0x0a
const SPACE = 0x20
