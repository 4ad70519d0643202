/** Runs commands of svc in this process: without a start of the binary, and without a build. */
import { PassThrough } from "node:stream"
import { runWords } from "../src/cli/run-words.ts"

/** What a command reads of its process. */
export type CommandWorld = {
  /** The home directory. */
  readonly home: string
  /** The working directory; the home directory by default. */
  readonly cwd?: string
  /** Variables in addition to HOME, PATH and LANG. */
  readonly env?: Readonly<Record<string, string>>
  /** Runs the command on a terminal, and answers each of its questions with the next of these. */
  readonly answers?: readonly string[]
}

export type CommandResult = { readonly code: number; readonly stdout: string; readonly stderr: string }

/**
 * Runs a command to its end, with what svc writes on both streams. Commands read the state of their process (environment, working
 * directory, streams), so it is exchanged until the command ends: await one command before the next.
 *
 * Not for commands that start programs by name, such as `svc service`: Bun finds them with the PATH of the test, not with that of `world`.
 */
export async function runCommand(words: readonly string[], world: CommandWorld): Promise<CommandResult> {
  const written = { stdout: "", stderr: "" }
  const left = [...(world.answers ?? [])]
  const isTerminal = world.answers !== undefined
  const stdin = Object.assign(new PassThrough(), { isTTY: isTerminal, setRawMode: () => stdin })
  const stream = (name: "stdout" | "stderr") => ({
    isTTY: isTerminal,
    columns: TERMINAL_WIDTH,
    write(text: string | Uint8Array) {
      written[name] += typeof text === "string" ? text : Buffer.from(text).toString()
      if (isTerminal && QUESTION.test(written[name])) stdin.write(`${left.shift() ?? ""}\r`)
      return true
    },
  })
  const { env, stdin: realStdin } = process
  const folder = process.cwd()
  const [stdout, stderr] = [exchange(process.stdout, stream("stdout")), exchange(process.stderr, stream("stderr"))]
  const handlers = new Map(SIGNALS.map((name) => [name, process.listeners(name)]))
  const { PATH = "" } = env
  process.env = { PATH, LANG: "C.UTF-8", HOME: world.home, ...world.env }
  Object.defineProperty(process, "stdin", { value: stdin, configurable: true })
  try {
    process.chdir(world.cwd ?? world.home)
    return { code: await runWords(words), ...written }
  } finally {
    process.chdir(folder)
    process.env = env
    Object.defineProperty(process, "stdin", { value: realStdin, configurable: true })
    stdout()
    stderr()
    for (const [name, known] of handlers)
      for (const handler of process.listeners(name)) if (!known.includes(handler)) process.off(name, handler)
  }
}

/** Returns a function that runs commands for the configuration in `directory`, which is also their home unless another is given. */
export const commandsIn =
  (directory: string, world: Partial<CommandWorld> = {}) =>
  (...words: readonly string[]): Promise<CommandResult> =>
    runCommand(words, { home: directory, ...world, env: { SVC_CONFIG_DIR: directory, ...world.env } })

// ---

const TERMINAL_WIDTH = 200
const QUESTION = /(?:\[y\/N\]|:) $/
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const

/** Gives an object other properties, and returns a function that gives it its own again. */
function exchange(object: object, properties: object): () => void {
  const names = Object.keys(properties)
  const own = names.map((name) => Object.getOwnPropertyDescriptor(object, name))
  for (const [name, value] of Object.entries(properties))
    Object.defineProperty(object, name, { value, configurable: true, writable: true })
  return () => {
    for (const [at, name] of names.entries()) {
      const descriptor = own[at]
      if (descriptor === undefined) Reflect.deleteProperty(object, name)
      else Object.defineProperty(object, name, descriptor)
    }
  }
}
