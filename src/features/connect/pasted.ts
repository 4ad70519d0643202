/**
 * Reads the servers in a text that a person has pasted: the JSON, TOML or YAML of any client, a command line, an address, the name of a
 * package, or the command with which a client adds a server. Pure: text in, servers out.
 */
import { commandWords } from "../../lib/command-words.ts"
import { RequestError } from "../../lib/errors.ts"
import type { Params } from "../../wire/message.ts"
import { clientFlags } from "./client-flags.ts"
import { placed, readForeignServers } from "./import.ts"

/** A server in a pasted text. `problem` says why svc cannot run it; `notes` name settings that are dropped. */
export type PastedServer = {
  /** Empty if the text has none. */
  readonly name: string
  readonly server: Params
  readonly isTemplate: boolean
  readonly notes: readonly string[]
  readonly problem: string | undefined
}

/**
 * Returns the servers in a pasted text. Throws a RequestError (invalid_params) that names the accepted forms if there is none, and a
 * ConfigError with line and column if the text is a malformed document. `isProgram` tells whether the machine has a program: without
 * this, any sentence would be a command line.
 */
export function readPasted(given: string, isProgram: (name: string) => boolean): readonly PastedServer[] {
  const text = given
    .trim()
    .replace(/^```\w*\n([\s\S]*?)\n```$/, "$1")
    .trim()
    .replace(/^\$ +/, "")
  const all = formatOf(text) !== undefined ? readDocument(text) : [readLine(text, isProgram)]
  if (all.length === 0) throw refusal("the text names no server")
  return all
}

/** Returns a fragment of a JSON document, as guides print it, in the braces that it lacks. */
export const inBraces = (text: string): string => (/^\s*"/.test(text) ? `{${text.trim().replace(/,$/, "")}}` : text)

// ---

const refusal = (why: string): RequestError =>
  new RequestError(
    "invalid_params",
    `${why}; paste the JSON of a client, a command line, an address, or the name of a package`,
  )

/** Returns the format of a text; undefined for one that is no document. */
function formatOf(text: string): "json" | "toml" | "yaml" | undefined {
  if (/^(?:[{"]|\[\s*\{)/.test(text)) return "json"
  if (/^\[[\w."' -]+\]\s*$/m.test(text)) return "toml"
  return /^(?:[\w-]+:\s*$|- \w+:)/m.test(text) ? "yaml" : undefined
}

function readDocument(text: string, format = formatOf(text)): readonly PastedServer[] {
  const found = readForeignServers(format === "json" ? named(inBraces(text)) : text, `the pasted text.${format}`)
  return found.map(({ name, server: written, notes, problem }) => {
    const { server, isTemplate, note } = placed(written, undefined, () => false)
    return {
      name: name === UNNAMED ? nameOf(server) : name,
      server,
      isTemplate,
      notes: note === undefined ? notes : [...notes, note],
      problem,
    }
  })
}

/** The name of a server that has none, until it gets one from its command. */
const UNNAMED = "unnamed"

/** Puts one server without a name into a section. */
function named(text: string): string {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // Comments, or a mistake that the reader of documents reports.
    return text
  }
  const { name, ...server } = value as Params
  const isServer = ["command", "url", "httpUrl", "serverUrl"].some((key) => key in server)
  return isServer ? JSON.stringify({ mcpServers: { [typeof name === "string" ? name : UNNAMED]: server } }) : text
}

/** Returns the server of a line: an address, the name of a package, or a command. */
function readLine(text: string, isProgram: (name: string) => boolean): PastedServer {
  const words = commandWords(text.replace(/\\\r?\n/g, " "))
  if (words === undefined) throw new RequestError("invalid_params", "a quote in the command line is not closed")
  const [first = "", second] = words
  if (second === undefined && /^https?:\/\//.test(first)) return remote(first)
  if (second === undefined && PACKAGE.test(first) && !isProgram(first)) {
    // Most single words are no packages for MCP, and npx would run whatever has this name.
    if (/^[a-z0-9]+$/.test(first) && !first.includes("mcp"))
      throw new RequestError(
        "invalid_params",
        `it is not clear what "${first}" is; if it is an npm package, paste \`npx -y ${first}\``,
      )
    return local(["npx", "-y", first], {}, [`taken as the name of an npm package`])
  }
  return readAdd(words) ?? readCommand(words, isProgram)
}

/** Whether a word is a program that runs packages and scripts, such as `npx` and `docker`. */
export const isRunner = (word: string): boolean => RUNNER.test(word)

// ---

/** Matches the name of an npm package, perhaps with a version. */
const PACKAGE = /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(?:@[\w.^~-]+)?$/

/** Matches the programs that run packages and scripts: a person may paste their command before they are installed. */
const RUNNER = /^(?:npx|bunx|pnpx|uvx|pipx|node|bun|deno|python3?|uv|docker|podman|npm|pnpm|yarn|cmd)$/

/** Returns the server of a command line, which may begin with variables: `KEY=value npx …`. */
function readCommand(words: readonly string[], isProgram: (name: string) => boolean): PastedServer {
  const from = words.findIndex((word) => !/^[A-Za-z_]\w*=/.test(word))
  if (from < 0) throw new RequestError("invalid_params", "the command line has variables, but no command")
  const program = words[from] ?? ""
  if (/^\w+:\/\//.test(program)) throw refusal("the text has more words after the address")
  // A path is clearly meant as one, even if its file is missing.
  if (!/[\\/]/.test(program) && !RUNNER.test(program) && !isProgram(program))
    throw refusal(`this machine has no program named "${program.slice(0, MAX_NAME)}"`)
  return local(words.slice(from), pairs(words.slice(0, from), "="), [])
}

/** Returns the server of `claude mcp add …` and of the same commands of other clients; undefined for any other command. */
function readAdd(words: readonly string[]): PastedServer | undefined {
  const [program = "", mcp, add] = words
  if (!/^(?:claude|codex|gemini|svc|qwen)$/.test(program) || mcp !== "mcp" || !/^add(?:-json)?$/.test(add ?? ""))
    return undefined
  const options = new Map<string, string[]>()
  const rest: string[] = []
  let at = 3
  for (; at < words.length && words[at] !== "--"; at++) {
    const word = words[at] ?? ""
    const [, flag, value] = /^(--?[\w-]+)(?:=(.*))?$/s.exec(word) ?? []
    if (flag === undefined) {
      rest.push(word)
      // After the name and the command, all words are arguments: only `--` or the flags before tell them apart.
      if (rest.length === 2 && !/^https?:|^\{/.test(word)) break
      continue
    }
    const name = SHORT[flag] ?? flag
    const given = value ?? (WITHOUT_VALUE.includes(name) ? "" : (words[++at] ?? ""))
    options.set(name, [...(options.get(name) ?? []), given])
  }
  const [name = "", second = ""] = rest
  if (add === "add-json") return { ...only(readDocument(second)), name }
  const url = options.get("--url")?.[0] ?? (/^https?:/.test(second) ? second : undefined)
  const {
    headers: bearer,
    disabledTools,
    notes,
  } = clientFlags(name, { trusts: options.has("--trust"), valuesOf: (flag) => options.get(`--${flag}`) ?? [] })
  const completed = ({ server, ...found }: PastedServer): PastedServer => ({
    ...found,
    name,
    server: { ...server, ...(disabledTools.length === 0 ? {} : { disabledTools }) },
    notes: [...found.notes, ...notes],
  })
  const headers = { ...pairs(options.get("--header") ?? [], ":"), ...bearer }
  if (url !== undefined) return completed(remote(url, headers))
  const command = [...rest.slice(1), ...words.slice(at + 1)].filter((word, index) => word !== "--" || index > 1)
  if (command[0] === undefined || command[0] === "")
    throw new RequestError("invalid_params", `the command adds ${name}, but names neither a command nor an address`)
  return completed(local(command, pairs(options.get("--env") ?? [], "="), []))
}

/** Flags of the `mcp add` of clients that take no value. */
const WITHOUT_VALUE: readonly string[] = ["--trust", "--client-secret"]

const SHORT: Readonly<Record<string, string>> = {
  "-e": "--env",
  "-H": "--header",
  "-t": "--transport",
  "-s": "--scope",
}

function only([first]: readonly PastedServer[]): PastedServer {
  if (first === undefined) throw new RequestError("invalid_params", "the JSON of the command has no server")
  return first
}

/** Returns texts such as `NAME=value` as a record. */
const pairs = (texts: readonly string[], mark: "=" | ":"): Readonly<Record<string, string>> =>
  Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf(mark)
      return at < 0 ? [text, ""] : [text.slice(0, at).trim(), text.slice(at + 1).trim()]
    }),
  )

function remote(url: string, headers: Readonly<Record<string, string>> = {}): PastedServer {
  const server = { url, ...(Object.keys(headers).length === 0 ? {} : { headers }) }
  return { name: nameOf(server), server, isTemplate: false, notes: [], problem: undefined }
}

function local(
  words: readonly string[],
  env: Readonly<Record<string, string>>,
  notes: readonly string[],
): PastedServer {
  const [command = "", ...args] = words
  const server = { command, args, ...(Object.keys(env).length === 0 ? {} : { env }) }
  return { name: nameOf(server), server, isTemplate: false, notes, problem: undefined }
}

/** Returns a name for a server: the host's own part of its address, or the package that its command runs. */
function nameOf({ url, command, args }: Params): string {
  if (typeof url === "string") {
    if (!URL.canParse(url)) return ""
    const { hostname } = new URL(url)
    const parts = hostname.split(".").filter((part) => !/^(?:mcp|api|www|com|org|net|io|ai|dev|app|co)$/.test(part))
    return plain(/^[\d.]+$|^\[/.test(hostname) ? hostname : (parts.at(-1) ?? hostname))
  }
  const program = String(command)
    .replace(/^.*[\\/]/, "")
    .replace(/\.(?:exe|cmd)$/, "")
  const words = Array.isArray(args) ? args.map(String) : []
  const runs = RUNNER.test(program)
  const named = words.filter((word) => !/^-|^(?:run|exec|dlx|x|npx|tool)$|^\/c$|=/.test(word))
  const ran = named.at(/^(?:docker|podman)$/.test(program) ? -1 : 0)
  const subject = (runs ? ran : undefined) ?? program
  const file = withoutVersion(subject).replace(/^@([\w.-]+)\/(?:mcp|server|mcp-server)$/, "$1")
  const last = file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1)
  return plain(
    last
      .replace(/\.(?:[cm]?[jt]s|py)$/, "")
      .replace(/^(?:mcp-server-|server-|mcp-)(?=.)/, "")
      .replace(/(?<=.)(?:-mcp-server|-mcp|-server)$/, ""),
  )
}

/** Returns a package without its version: `name@1.2`, `name==1.2` or `image:tag`. */
function withoutVersion(name: string): string {
  const at = name.lastIndexOf("@")
  const tag = name.lastIndexOf(":")
  const ends = [at > 0 ? at : -1, name.indexOf("=="), tag > name.lastIndexOf("/") ? tag : -1].filter((end) => end > 0)
  return name.slice(0, Math.min(name.length, ...ends))
}

/** Returns a text as a name of a server: other characters than letters, digits and underscores become single hyphens between them. */
const plain = (text: string): string => (text.slice(0, MAX_NAME).match(/\w+/g) ?? []).join("-")

const MAX_NAME = 60
