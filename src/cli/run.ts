/** `svc run`: calls a tool from the shell. The result goes to stdout; progress, log messages and questions to stderr. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { ServerOffer } from "../app/catalog-answers.ts"
import { splitName } from "../catalog/name.ts"
import { openContext } from "../commands/command-context.ts"
import { answerElicitation } from "../commands/elicitation.ts"
import { aboutServer, isStarted, outcomeOf } from "../commands/follow.ts"
import { SHELL_ARGS, type ShellClient, type ShellEvents, withShellClient } from "../commands/shell-client.ts"
import { startSvc } from "../commands/start-svc.ts"
import { readArguments } from "../commands/tool-arguments.ts"
import { numberedPath, resultFiles, resultText } from "../commands/tool-result.ts"
import { writtenName } from "../config/edit.ts"
import { formatDuration, systemClock } from "../lib/clock.ts"
import { readOptions, usageError, type VariadicCommand } from "../lib/command-line.ts"
import { Interrupted, messageOf, OUTPUT_FAILED, RequestError, TOOL_FAILED, UnavailableError } from "../lib/errors.ts"
import { watchInterrupts } from "../lib/interrupt.ts"
import { parseExact } from "../lib/json.ts"
import { nearest } from "../lib/nearest.ts"
import { print, say, terminalLook } from "../lib/output.ts"
import { cut } from "../lib/table.ts"
import { createLiveOutput } from "../lib/terminal.ts"
import type { OfferedTool } from "../report/offered-tools.ts"
import type { Status } from "../report/status.ts"
import { callControl, instancePid } from "../serve/control-socket.ts"
import { configuredServers, type LocalConfiguration } from "../serve/local-configuration.ts"
import type { Paths } from "../store/paths.ts"
import { asText, isObject, type Params } from "../wire/message.ts"

export const run: VariadicCommand = {
  meta: { name: "run", description: "Call a tool of a running server" },
  rest: "KEY=VALUE",
  args: {
    tool: {
      type: "positional",
      required: true,
      description: "The tool as server/tool; its arguments follow as key=value, or key:=JSON",
      valueHint: "target",
    },
    args: { type: "string", description: "All arguments as a JSON object; - reads it from stdin", valueHint: "JSON" },
    output: {
      type: "string",
      description: "Write the result to a file: its image or other data, or its text",
      valueHint: "path",
    },
    timeout: { type: "string", description: "Cancel the call after this time, such as 30s", valueHint: "time" },
    once: {
      type: "boolean",
      description: "Start what the call needs, and stop it afterwards, unless svc is running",
    },
    strict: {
      type: "boolean",
      description: "Refuse arguments that do not match the tool's schema (default: warn of them)",
    },
    ...SHELL_ARGS,
  },
  async run({ args }) {
    const words = args._.slice(1)
    const option = readOptions(args, {})
    const given = option.text("args")
    const output = option.text("output")
    const timeout = option.duration("timeout", Number.POSITIVE_INFINITY)
    if (given !== undefined && words.length > 0) throw usageError(`write all arguments as key=value, or all in --args`)
    const whole = given === undefined ? undefined : parseArguments(given === "-" ? await Bun.stdin.text() : given)
    const target = String(args.tool)
    const { events, ended } = showEvents(target)
    const client = (one: ShellClient) =>
      callTool(
        one,
        target,
        words[0],
        (tool) => checked(tool, whole ?? argumentsFor(tool, words), args.strict === true),
        timeout,
      )
    const call = () => withShellClient(args, client, events).finally(ended)
    const result = args.once === true ? await withServer(openContext(args), target, call) : await call()
    return show(result, args.json === true, output)
  },
}

// ---

/** Runs a call in an svc that has only the server of its target, unless svc is running. */
async function withServer<T>(context: LocalConfiguration, target: string, call: () => Promise<T>): Promise<T> {
  const { paths } = context
  if ((await instancePid(paths)) !== undefined) return call()
  const names = [...configuredServers(context).keys()]
  const given = splitName(target)?.slug ?? target
  // The name of a server may have a slash.
  const found = names.filter((name) => given.startsWith(`${name}/`)).sort((one, other) => other.length - one.length)[0]
  const server = found ?? writtenName(given.split("/")[0] ?? given, names)
  const configured = paths.file === join(paths.directory, "mcp.json") ? [] : ["--config", paths.file]
  const words = [...configured, "--config-dir", paths.directory, "--port", "0", "--servers", server, "--no-admin"]
  const svc = await startSvc(paths, [...words, "--no-reload", "--startup-wait", ONCE_WAIT], "program")
  try {
    const problem = await problemOf(paths, server)
    if (problem !== undefined) throw new UnavailableError(problem)
    return await call()
  } finally {
    await svc.end()
  }
}

/** Waits for a server. Returns why it does not run; undefined if it does, or is a template that starts for the call. */
async function problemOf(paths: Paths, server: string): Promise<string | undefined> {
  const answer = await callControl(paths, "reload", { names: [server], wait: ONCE_MS }, ONCE_MS + ANSWER_MS)
  if (!isObject(answer) || !isObject(answer.status)) return undefined
  const outcome = outcomeOf(server, answer.status as Status)
  return isStarted(outcome.state) ? undefined : aboutServer(outcome)
}

/** How long the call waits for its server, which may have to be downloaded. */
const ONCE_WAIT = "5m"
const ONCE_MS = 5 * 60_000
const ANSWER_MS = 60_000

function parseArguments(text: string): Params {
  let value: unknown
  try {
    value = parseExact(text)
  } catch (error) {
    throw usageError(`--args is not JSON: ${messageOf(error)}`)
  }
  if (!isObject(value)) throw usageError('--args must be a JSON object, such as {"path": "/tmp"}')
  return value
}

function argumentsFor({ server, name, definition }: OfferedTool, words: readonly string[]): Params {
  try {
    return readArguments(words, definition?.inputSchema)
  } catch (error) {
    if (!(error instanceof RequestError)) throw error
    throw new RequestError(error.fault, `${server}/${name}: ${error.message}`)
  }
}

/** Returns the arguments after a check against the tool's schema. Warns of what does not match, or throws a RequestError if `isStrict`. */
async function checked({ server, name, definition }: OfferedTool, args: Params, isStrict: boolean): Promise<Params> {
  const { argumentProblems } = await import("../commands/check-arguments.ts")
  const problems = argumentProblems(definition?.inputSchema, args)
  if (problems.length === 0) return args
  if (isStrict) throw new RequestError("invalid_params", `${server}/${name}: ${problems.join("; ")}`)
  for (const problem of problems) say(`warning: ${server}/${name}: ${problem}`)
  return args
}

async function callTool(
  client: ShellClient,
  target: string,
  following: string | undefined,
  argumentsOf: (tool: OfferedTool) => Promise<Params>,
  timeout: number,
): Promise<Params> {
  const tool = await findTool(client, target, following)
  const args = await argumentsOf(tool)
  const call = client.request("tools/call", { name: tool.qualifiedName, arguments: args })
  const { promise: stopped, reject: stop } = Promise.withResolvers<never>()
  const { signal } = watchInterrupts()
  const interrupted = () => stop(new Interrupted("call"))
  const late = () => stop(new UnavailableError(`${target} did not answer within ${formatDuration(timeout)}`))
  const cancelTimer = Number.isFinite(timeout) ? systemClock.after(timeout, late) : () => undefined
  signal.addEventListener("abort", interrupted)
  try {
    const result = await Promise.race([call.result, stopped])
    // svc also answers with a result if the server is down.
    if (result.isError === true)
      await findTool(client, target).catch((error: unknown) => throwIfDown(error, result, tool.server))
    return result
  } catch (error) {
    call.cancel(error instanceof Interrupted ? "interrupted" : "timed out")
    throw error
  } finally {
    cancelTimer()
    signal.removeEventListener("abort", interrupted)
  }
}

function throwIfDown(error: unknown, result: Params, server: string): void {
  if (!(error instanceof UnavailableError)) return
  const said = resultText(result, false).trimEnd()
  throw new UnavailableError(`${said}; \`svc logs ${server}\` shows what it wrote`, { cause: error })
}

/**
 * Returns the tool with a name. Throws a typed error if it cannot be called. If the name is a server, `following` may be its
 * tool.
 */
async function findTool(client: ShellClient, target: string, following?: string): Promise<OfferedTool> {
  const found = (await client.ask("target", { name: target })) as
    | { readonly server: ServerOffer }
    | { readonly tool: OfferedTool }
  if ("server" in found) {
    const { server, tools } = found.server
    const near =
      following === undefined
        ? undefined
        : nearest(
            following,
            tools.map(({ name }) => name),
          )
    if (near !== undefined) throw usageError(`${target} is a server; did you mean its tool ${server}/${near}?`)
    throw usageError(
      `${target} is a server; name one of its tools as ${server}/TOOL (\`svc inspect ${server}\` lists them)`,
    )
  }
  const { server, name, disabled, held, definition } = found.tool
  if (disabled)
    throw new RequestError(
      "forbidden",
      `${server}/${name} is disabled; \`svc mcp tools enable ${server} ${name}\` shows it again`,
    )
  if (held === true)
    throw new RequestError(
      "forbidden",
      `${server}/${name} has changed and is held; \`svc mcp tools approve ${server} ${name}\` approves it`,
    )
  if (isObject(definition?.execution) && definition.execution.taskSupport === "required")
    throw new UnavailableError(
      `${server}/${name} runs only as a task, and svc run cannot start tasks; call it from a client that supports tasks`,
    )
  return found.tool
}

/** Shows progress, on a terminal in one line that changes and elsewhere as lines, and log messages as lines. */
function showEvents(target: string): { readonly events: ShellEvents; ended(): void } {
  const look = terminalLook()
  const live = look === undefined ? undefined : createLiveOutput((text) => void process.stderr.write(text))
  const ended = () => live?.show("")
  const line = (text: string) => {
    ended()
    say(text)
  }
  return {
    ended,
    events: {
      capabilities: { elicitation: { form: {}, url: {} } },
      onnotification(method, params) {
        if (method === "notifications/message") line(logText(params))
        if (method !== "notifications/progress") return
        const text = progressText(params)
        if (live === undefined || look === undefined) say(text)
        else live.show(cut(text, look.width - 1))
      },
      async onrequest(method, params) {
        if (method !== "elicitation/create") return undefined
        ended()
        return answerElicitation(target, params)
      },
    },
  }
}

function progressText({ progress, total, message }: Params): string {
  const done = total === undefined ? asText(progress) : `${asText(progress)}/${asText(total)}`
  return message === undefined ? `progress ${done}` : `progress ${done}: ${asText(message)}`
}

function logText({ level, logger, data }: Params): string {
  const text = isObject(data) && typeof data.message === "string" ? data.message : asText(data)
  return `${asText(level)}${logger === undefined ? "" : ` ${asText(logger)}`}: ${text}`
}

/** Shows a result, and returns the exit code. */
function show(result: Params, asJson: boolean, output: string | undefined): number {
  const failed = result.isError === true
  if (output !== undefined && !failed) return save(result, output)
  if (asJson) print(true, result, () => "")
  else if (failed) say(resultText(result, false).trimEnd())
  else process.stdout.write(resultText(result, process.stdout.isTTY === true))
  return failed ? TOOL_FAILED : 0
}

/** Writes the data of a result to a file, or its text if it has none, and returns the exit code. */
function save(result: Params, path: string): number {
  const files = resultFiles(result)
  const contents = files.length === 0 ? [Buffer.from(resultText(result, false))] : files.map(({ bytes }) => bytes)
  for (const [at, bytes] of contents.entries()) {
    const file = numberedPath(path, at)
    try {
      writeFileSync(file, bytes)
    } catch (error) {
      say(`svc: cannot write the result: ${messageOf(error)}`)
      return OUTPUT_FAILED
    }
    say(`${file}: ${bytes.length} bytes${files[at] === undefined ? "" : ` of ${files[at]?.type}`}`)
  }
  return 0
}
