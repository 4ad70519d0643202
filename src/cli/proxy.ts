/**
 * `svc proxy`: a stdio MCP server for clients that start a command. It bridges its client to the running svc, with the
 * project's context, and ends when the client disconnects.
 */
import type { CommandDef } from "citty"
import { CONFIG_ARGS } from "../app/config-paths.ts"
import { findProjectContext, projectDirectory, watchProjectContext } from "../app/project-context.ts"
import { readQuery } from "../catalog/selection.ts"
import { startInBackground } from "../commands/background.ts"
import { openContext } from "../commands/command-context.ts"
import { connectToProxySocket, MAX_PROXY_LINE, MAX_PROXY_WAITING } from "../commands/proxy-connection.ts"
import { systemClock, withTimeout } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { createStdoutWriter, say } from "../lib/output.ts"
import { callControl, proxyEndpoint } from "../serve/control-socket.ts"
import { type ProxyDeps, ProxySession } from "../serve/proxy-client.ts"
import type { Paths } from "../store/paths.ts"
import { decode } from "../wire/frame.ts"
import { createSplitter, lineOf } from "../wire/lines.ts"

export const proxy: CommandDef = {
  meta: { name: "proxy", description: "Connect a stdio client to the running svc, with the context of its project" },
  args: {
    ...CONFIG_ARGS,
    project: {
      type: "string",
      description: "Directory of the project (default: the working directory)",
      valueHint: "directory",
    },
    tags: { type: "string", description: "Offer only servers with one of these tags, comma-separated" },
    "tag-filter": { type: "string", description: 'Offer only servers whose tags match, such as "web and not slow"' },
    preset: { type: "string", description: "Offer only the servers of this preset", valueHint: "preset" },
    tools: {
      type: "string",
      description: "Tools to list: all, or search (only svc's search tools)",
      valueHint: "all|search",
    },
    start: { type: "boolean", description: "Start svc in the background if it is not running" },
  },
  async run({ args }) {
    const { paths } = openContext(args)
    const option = readOptions(args, process.env)
    const parameters = new URLSearchParams()
    for (const name of ["tags", "tag-filter", "preset", "tools"]) {
      const value = typeof args[name] === "string" ? args[name] : undefined
      if (value !== undefined) parameters.set(name, value)
    }
    const query = readQuery(parameters)
    const queries = Object.keys(query).length === 0 ? [] : [query]
    const directory = projectDirectory(option.text("project"))
    const note = (text: string) => say(`svc proxy: ${text}`)
    const { promise: stop, resolve: end } = Promise.withResolvers<void>()
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end())
    const write = createStdoutWriter(MAX_PROXY_WAITING, (reason) => {
      note(reason)
      end()
    })
    const session: ProxySession = new ProxySession(findProjectContext(directory, queries, note), {
      clock: systemClock,
      send: (line) => write(lineOf(line)),
      connect: connectOrStart(args.start === true, paths, note, (reason) => session.startFailed(reason)),
      note,
    })
    session.start()
    const watch = watchProjectContext(directory, queries, note, (found) => session.moved(found))
    const feed = createSplitter(
      (line) => session.receive(decode(line)),
      MAX_PROXY_LINE,
      () => session.receive(""),
    )
    const input = (async () => {
      for await (const chunk of Bun.stdin.stream()) feed(chunk)
      await withTimeout(systemClock, END_MS, session.drained())
    })()
    await Promise.race([input, stop])
    watch.close()
    session.close()
    return 0
  },
}

// ---

/** How long open requests may take after the client has closed stdin. */
const END_MS = 10_000
const HELLO_MS = 1000

/**
 * Returns the function that connects. With `enabled`, it starts svc if none runs: the first time, and again after svc was
 * killed. An svc that was stopped has removed its control socket, and is not started again.
 */
function connectOrStart(
  enabled: boolean,
  paths: Paths,
  note: (text: string) => void,
  onfail: (reason: string) => void,
): ProxyDeps["connect"] {
  let mayStart = enabled
  let first = true
  return async (events) => {
    const found = await connectToProxySocket(paths, events).catch(() => undefined)
    const starts = found === undefined && mayStart && (first || proxyEndpoint(paths) !== undefined)
    first = false
    if (found !== undefined) mayStart = enabled
    if (starts) {
      mayStart = false
      const words = ["--init", "--config", paths.file, "--config-dir", paths.directory]
      const child = startInBackground(paths, words, { startedBy: "proxy", cwd: paths.directory })
      note(`svc is not running for this configuration; starting it, with its log in ${child.log}`)
      void child.failed.then(async ({ reason }) => {
        // Another proxy may have started one meanwhile.
        const running = await callControl(paths, "hello", {}, HELLO_MS).catch(() => undefined)
        if (running === undefined) onfail(`svc did not start: ${reason}`)
      })
      return "starting"
    }
    return found
  }
}
