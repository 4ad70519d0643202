/**
 * Runs commands of svc for REST: what they change lies outside of mcp.json (files of clients, secrets, backups), and one way to
 * change it is enough. A command gets secrets through its stdin, because other users can read its arguments.
 */
import * as z from "zod"
import { RequestError, type RequestFault, UnavailableError } from "../../lib/errors.ts"
import { ownCommand } from "../../lib/own-command.ts"
import type { Paths } from "../../store/paths.ts"
import { isObject } from "../../wire/message.ts"

/**
 * Runs a command, such as `["connect", "--list"]`, with `--json`, and returns its answer. `input` is its stdin. Rejects with a
 * RequestError or an UnavailableError that has the command's own message.
 */
export type RunCommand = (words: readonly string[], input?: string) => Promise<unknown>

/**
 * Returns the function that runs commands for a configuration. At most a few commands run at a time; others wait. In a demo, it refuses
 * those that change what outlives the demo.
 */
export function createCommands({ file, directory }: Pick<Paths, "file" | "directory">, isDemo: boolean): RunCommand {
  const running = new Set<Promise<unknown>>()
  let waiting = 0
  const run = async (words: readonly string[], input: string | undefined): Promise<unknown> => {
    const child = Bun.spawn({
      cmd: [...ownCommand(...words, "--config", file, "--config-dir", directory, "--json")],
      env: process.env,
      stdin: input === undefined ? "ignore" : new TextEncoder().encode(input),
      stdout: "pipe",
      stderr: "pipe",
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
      maxBuffer: MAX_OUTPUT,
    })
    const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    const answer = parsed(stdout)
    if (answer !== undefined && !(isObject(answer) && isObject(answer.error))) return answer
    throw faultOf(answer, stderr.trim() || `svc ${words[0]} ended without an answer; run it at a terminal to see why`)
  }
  return async (words, input) => {
    const [command, word] = words
    if (isDemo && (command === "disconnect" || (command === "connect" && word !== "--list"))) throw inDemo()
    if (waiting >= MAX_WAITING) throw new RequestError("too_many", "svc is still busy with earlier requests; try again")
    waiting++
    try {
      while (running.size >= MAX_RUNNING) await Promise.race(running)
    } finally {
      waiting--
    }
    const turn = run(words, input)
    const ended = turn.catch(() => undefined)
    running.add(ended)
    void ended.then(() => running.delete(ended))
    return turn
  }
}

/** Returns the tokens of tools in the context of a client, by their names in the aggregate. */
export type CountTokens = () => Promise<ReadonlyMap<string, number>>

/**
 * Returns the function that counts tokens as `svc tokens` does. It counts again when `generation`, that of the catalog, has changed;
 * one count at a time, because the catalog changes with each server that connects.
 */
export function createTokenCounter(run: RunCommand, generation: () => number): CountTokens {
  let known: { readonly at: number; readonly tokens: ReadonlyMap<string, number> } | undefined
  let running: Promise<void> | undefined
  const count = async (): Promise<void> => {
    const at = generation()
    const tokens = await run(["tokens"]).then(tokensIn, () => new Map<string, number>())
    known = { at, tokens }
    running = undefined
  }
  return async () => {
    // The count that runs may be for an earlier catalog; the one after it is not.
    for (let round = 0; round < 2 && known?.at !== generation(); round++) {
      running ??= count()
      await running
    }
    return known?.tokens ?? new Map()
  }
}

// ---

const inDemo = () =>
  new RequestError(
    "conflict",
    "the demo is gone when it stops, so svc connects no client to it; stop it, start `svc serve`, and connect the client there",
  )

const tokenReport = z.object({
  servers: z.array(z.object({ tools: z.array(z.object({ name: z.string(), tokens: z.number() })) })),
})

function tokensIn(answer: unknown): ReadonlyMap<string, number> {
  const { servers } = tokenReport.parse(answer)
  return new Map(servers.flatMap(({ tools }) => tools.map(({ name, tokens }) => [name, tokens] as const)))
}

const COMMAND_MS = 60_000
const MAX_OUTPUT = 8 * 1024 * 1024
const MAX_RUNNING = 4
const MAX_WAITING = 20

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the error of a command's answer. */
function faultOf(answer: unknown, otherwise: string): Error {
  const { code, message } = isObject(answer) && isObject(answer.error) ? answer.error : { code: "", message: otherwise }
  const fault = FAULTS[String(code)]
  return fault === undefined ? new UnavailableError(String(message)) : new RequestError(fault, String(message))
}

/** What is wrong with a request, by the code in the answer of a command. */
const FAULTS: Readonly<Record<string, RequestFault | undefined>> = {
  usage: "invalid_params",
  invalid_params: "invalid_params",
  not_found: "not_found",
  conflict: "conflict",
  invalid_configuration: "conflict",
}
