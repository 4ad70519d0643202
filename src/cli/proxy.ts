/**
 * `svc proxy`: a stdio MCP server for clients that start a command. It brings its client to the running svc, with the
 * project it works on, and ends when its client goes.
 */
import { closeSync, constants, openSync } from "node:fs"
import { join } from "node:path"
import type { Socket } from "bun"
import type { CommandDef } from "citty"
import { CONFIG_ARGS, openContext } from "../app/command-context.ts"
import { createStdoutWriter, say } from "../app/output.ts"
import { ownCommand } from "../app/own-command.ts"
import { findProjectContext, projectDirectory, watchProjectContext } from "../app/project-context.ts"
import { readQuery } from "../catalog/selection.ts"
import { systemClock, waitWhile } from "../lib/clock.ts"
import { readOptions } from "../lib/command-line.ts"
import { proxyEndpoint } from "../serve/control-socket.ts"
import { type ProxyDeps, ProxySession } from "../serve/proxy-client.ts"
import { createSendQueue } from "../serve/proxy-server.ts"
import { makePrivateFolder } from "../store/files.ts"
import type { Paths } from "../store/paths.ts"
import { decode } from "../wire/frame.ts"
import { createSplitter, lineOf } from "../wire/lines.ts"

export const proxy: CommandDef = {
  meta: { name: "proxy", description: "Bring a client that starts a command to the running svc, with its project" },
  args: {
    ...CONFIG_ARGS,
    project: { type: "string", description: "The project's directory (default the working directory)" },
    tags: { type: "string", description: "Only servers with one of these tags, with commas" },
    "tag-filter": { type: "string", description: 'Only servers whose tags pass, such as "web and not slow"' },
    preset: { type: "string", description: "Only servers of this preset" },
    start: { type: "boolean", description: "Start svc in the background where none is running" },
  },
  async run({ args }) {
    const { paths } = openContext(args)
    const option = readOptions(args, process.env)
    const parameters = new URLSearchParams()
    for (const name of ["tags", "tag-filter", "preset"]) {
      const value = typeof args[name] === "string" ? args[name] : undefined
      if (value !== undefined) parameters.set(name, value)
    }
    const query = readQuery(parameters)
    const asked = Object.keys(query).length === 0 ? [] : [query]
    const directory = projectDirectory(option.text("project"))
    const note = (text: string) => say(`svc proxy: ${text}`)
    const { promise: stop, resolve: end } = Promise.withResolvers<void>()
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => end())
    const write = createStdoutWriter(MAX_WAITING, (reason) => {
      note(reason)
      end()
    })
    const session = new ProxySession(findProjectContext(directory, asked, note), {
      clock: systemClock,
      send: (line) => write(lineOf(line)),
      connect: starting(args.start === true, paths, note),
      note,
    })
    session.start()
    const following = watchProjectContext(directory, asked, note, (found) => session.moved(found))
    const feed = createSplitter(
      (line) => session.receive(decode(line)),
      MAX_LINE,
      () => session.receive(""),
    )
    const input = (async () => {
      for await (const chunk of Bun.stdin.stream()) feed(chunk)
      await waitWhile(systemClock, () => session.busy, END_MS)
    })()
    await Promise.race([input, stop])
    following.close()
    session.close()
    return 0
  },
}

// ---

/** How long what was asked may take once the client has no more to say. */
const END_MS = 10_000
/** As much as svc takes and gives: its own bounds are what counts. */
const MAX_LINE = 64 * 1024 * 1024
const MAX_WAITING = 128 * 1024 * 1024

async function connect(
  paths: Paths,
  { line, lost }: Parameters<ProxyDeps["connect"]>[0],
): ReturnType<ProxyDeps["connect"]> {
  const door = proxyEndpoint(paths)
  if (door === undefined || door.lost) return undefined
  let socket: Socket<undefined> | undefined
  const outbox = createSendQueue(
    () => socket as Socket<unknown> | undefined,
    MAX_WAITING,
    () => socket?.terminate(),
  )
  const feed = createSplitter(line, MAX_LINE, () => undefined)
  socket = await Bun.connect({
    ...(door.address as { unix: string }),
    socket: {
      data: (_socket, bytes) => feed(bytes),
      drain: () => outbox.drain(),
      close: () => lost(),
      error: () => undefined,
    },
  })
  return { link: { send: outbox.write, close: () => void socket?.end() }, token: door.token }
}

/**
 * Connects, and where `wanted` starts what is not there: at first, and again where it was killed. One that somebody stopped
 * took its door with it, and stays stopped.
 */
function starting(wanted: boolean, paths: Paths, note: (text: string) => void): ProxyDeps["connect"] {
  let may = wanted
  let first = true
  return async (events) => {
    const found = await connect(paths, events).catch(() => undefined)
    if (found !== undefined) may = wanted
    else if (may && (first || proxyEndpoint(paths) !== undefined)) {
      may = false
      note(`no svc is running for this configuration; starting it, see ${startInBackground(paths)}`)
    }
    first = false
    return found
  }
}

/** Starts `svc serve` so that it outlives this command. Gives the file in which what it says is kept. */
function startInBackground(paths: Paths): string {
  makePrivateFolder(paths.directory)
  // Not among the logs of the servers: one may be named start.
  const file = join(paths.directory, "start.log")
  // Several may start it at once: none writes over the lines of the one that stays.
  const log = openSync(file, constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND, 0o600)
  const child = Bun.spawn({
    cmd: [...ownCommand("serve", "--config", paths.file, "--config-dir", paths.directory)],
    // It runs for months and its file is not rotated; what servers say is kept by `svc logs`.
    env: { SVC_LOG_LEVEL: "error", ...process.env },
    // Not the project's, which is one client's alone.
    cwd: paths.directory,
    stdin: "ignore",
    stdout: "ignore",
    stderr: log,
    // A group of its own: what ends the client must not end the others' svc.
    detached: true,
  })
  child.unref()
  closeSync(log)
  return file
}
