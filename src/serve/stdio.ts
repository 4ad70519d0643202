/** MCP over svc's own stdin and stdout, for clients that start a command. basic: stdio. */
import { type Clock, withTimeout } from "../lib/clock.ts"
import { Pipe, type PipeDeps } from "../session/pipe.ts"
import { decode } from "../wire/frame.ts"
import { createSplitter, lineOf } from "../wire/lines.ts"

export type StdioStreams = {
  readonly input: AsyncIterable<Uint8Array>
  write(bytes: Uint8Array): void
}

/** Serves until the input ends, then waits at most `grace` milliseconds for running requests. */
export async function serveStdio(
  streams: StdioStreams,
  deps: Omit<PipeDeps, "send">,
  limit: number,
  clock: Clock,
  grace: number,
): Promise<void> {
  const pipe = new Pipe({
    ...deps,
    send: (frame) => streams.write(lineOf(frame)),
  })
  const feed = createSplitter(
    (line) => pipe.receive(decode(line)),
    limit,
    (edges) => pipe.overlong(edges, limit),
  )
  for await (const chunk of streams.input) feed(chunk)
  await withTimeout(clock, grace, pipe.drained())
  pipe.close("client disconnected")
}
