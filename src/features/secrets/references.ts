/**
 * The values of references: `${keychain:NAME}`, `${file:PATH}` and `${cmd:COMMAND}`. A load of the configuration asks for those that
 * running servers need, a bounded number at a time. A source may take long, because it asks a person: what waits for it goes on
 * without its value, and `onlate` says when it is there.
 */
import { isAbsolute, join } from "node:path"
import { type Document, parseDocument } from "../../config/document.ts"
import { parseDotenv } from "../../config/dotenv.ts"
import type { ResolvedReference } from "../../config/environment.ts"
import { readNotifyTargets } from "../../config/notify.ts"
import { type HostEnvironment, plan } from "../../config/plan.ts"
import { readRegistries } from "../../config/registries.ts"
import { type Clock, delay } from "../../lib/clock.ts"
import { commandWords } from "../../lib/command-words.ts"
import { ConfigError, messageOf } from "../../lib/errors.ts"
import { createRedactor } from "../../lib/redact.ts"
import { shellWord } from "../../lib/shell-word.ts"

/** The sources outside of svc. */
export type SecretSources = {
  /** Returns a secret of the keychain, or null. Rejects if there is no keychain, or it is locked. */
  keychain(name: string): Promise<string | null>
  /** Returns the bytes of a regular file. Throws an error with the reason. */
  file(path: string): Uint8Array
  /** Runs a program to its end, or until it has printed more than MAX_BYTES. Rejects if it cannot start; ends it with the signal. */
  command(words: readonly string[], signal: AbortSignal): Promise<CommandOutcome>
}

export type CommandOutcome = { readonly exitCode: number; readonly stdout: Uint8Array; readonly stderr: string }

type ReferencesDeps = {
  readonly sources: SecretSources
  readonly clock: Clock
  /** What plans depend on besides the documents. */
  readonly world: Omit<HostEnvironment, "dotenv">
  /** Whether `svc serve --allow-commands` was given. */
  readonly allowCommands: boolean
  /** Whether mcp.json is that of the configuration directory: only there, `allowCommands` has an effect. */
  readonly isDefaultFile: boolean
  /** A value has changed since the last load that asked for it. */
  onlate(): void
}

/** Whether a secret of the keychain can have a name: it must fit into a reference and into a command. */
export const isStorableName = (name: string): boolean =>
  name.trim() === name && /^[^{}$"'`\\\p{Cc}]{1,200}$/u.test(name)

/** What such a name has. */
export const NAME_RULE = "no quotes, braces, $, backslashes or control characters, and no space at either end"

/** The longest value. */
export const MAX_BYTES = 64 * 1024

/** The values of the references of one configuration. A source that hangs delays no other one. */
export class References {
  private readonly known = new Map<string, Known>()
  /** What is being asked for. */
  private readonly open = new Map<string, PendingValue>()
  /** Questions that wait until fewer than AT_ONCE are open. */
  private readonly waiting: (() => void)[] = []
  private answering = 0
  private ended = false
  /** Counts loads: a late value of an earlier one is not told. */
  private round = 0
  private cancelRetry: (() => void) | undefined

  constructor(private readonly deps: ReferencesDeps) {}

  /** Returns the value of a reference that the last load asked for. */
  readonly lookUp = (reference: string): ResolvedReference | undefined => this.known.get(reference)?.outcome

  /**
   * Asks for the values of the references in these texts. Resolves when all are there, or after `patience` milliseconds. Files and the keychain
   * are read at each load, a command runs again after COMMAND_MS, or with `fresh`. Texts that are invalid need none.
   */
  async load(config: string, dotenv: string, fresh: boolean, patience = PATIENCE_MS): Promise<void> {
    const { clock, world } = this.deps
    const document = this.documentOf(config)
    const wanted = document === undefined ? [] : referencesOf(document, { ...world, dotenv: variablesOf(dotenv) })
    for (const reference of this.known.keys()) if (!wanted.includes(reference)) this.known.delete(reference)
    for (const [reference, { end }] of this.open) if (!wanted.includes(reference)) end()
    const allowed = this.deps.allowCommands || (this.deps.isDefaultFile && document?.value.allowCommands === true)
    const round = ++this.round
    this.cancelRetry?.()
    this.retryLater(round, allowed)
    const stale = wanted.filter((reference) => fresh || !this.isFresh(reference, allowed))
    let isLate = false
    const work = stale.map(async (reference) => {
      const changed = await this.ask(reference, allowed, fresh)
      if (isLate && changed) this.tell(round)
    })
    const over = new AbortController()
    void Promise.all(work).then(() => over.abort())
    await delay(clock, patience, over.signal)
    isLate = true
  }

  /** Ends what runs. */
  close(): void {
    this.ended = true
    this.cancelRetry?.()
    for (const { end } of this.open.values()) end()
  }

  // ---

  private documentOf(config: string): Document | undefined {
    try {
      return parseDocument(config, "mcp.json")
    } catch (error) {
      // The load itself reports it.
      if (error instanceof ConfigError) return undefined
      throw error
    }
  }

  private isFresh(reference: string, allowed: boolean): boolean {
    const known = this.known.get(reference)
    if (known === undefined || !reference.startsWith("cmd:")) return false
    return allowed && "value" in known.outcome && this.deps.clock.now() - known.at < COMMAND_MS
  }

  /** Asks for a value, or joins a question for it that is open, unless `fresh`. Resolves to whether the value has changed. */
  private ask(reference: string, allowed: boolean, fresh: boolean): Promise<boolean> {
    const open = this.open.get(reference)
    if (open !== undefined && !fresh) return open.answer
    open?.end()
    const over = new AbortController()
    const question: PendingValue = { end: () => over.abort(), answer: this.answer(reference, allowed, over.signal) }
    this.open.set(reference, question)
    if (!this.known.has(reference)) this.known.set(reference, { outcome: PENDING, at: this.deps.clock.now() })
    void question.answer.then(() => {
      if (this.open.get(reference) === question) this.open.delete(reference)
    })
    return question.answer
  }

  private async answer(reference: string, allowed: boolean, signal: AbortSignal): Promise<boolean> {
    if (this.answering < AT_ONCE) this.answering++
    else await new Promise<void>((resolve) => this.waiting.push(resolve))
    const outcome = signal.aborted ? OVERDUE : await this.outcomeOf(reference, allowed, signal)
    const next = this.waiting.shift()
    if (next === undefined) this.answering--
    else next()
    // The value is not wanted any more, or is asked for anew.
    if (signal.aborted) return false
    const before = this.known.get(reference)?.outcome
    this.known.set(reference, { outcome, at: this.deps.clock.now() })
    return JSON.stringify(before) !== JSON.stringify(outcome)
  }

  /** Tells of a value that has come after its load. */
  private tell(round: number): void {
    if (round === this.round && !this.ended) this.deps.onlate()
  }

  /** Asks every minute for values that could not be had: a keychain may be locked while the system starts. */
  private retryLater(round: number, allowed: boolean): void {
    this.cancelRetry = this.deps.clock.after(RETRY_MS, () => {
      const failed = [...this.known].flatMap(([reference, { outcome }]) => ("problem" in outcome ? [reference] : []))
      if (failed.length === 0) return
      for (const reference of failed)
        if (!this.open.has(reference))
          void this.ask(reference, allowed, false).then((changed) => {
            if (changed) this.tell(round)
          })
      this.retryLater(round, allowed)
    })
  }

  private async outcomeOf(reference: string, allowed: boolean, signal: AbortSignal): Promise<ResolvedReference> {
    const colon = reference.indexOf(":")
    const [scheme, rest] = [reference.slice(0, colon), reference.slice(colon + 1)]
    const over = new AbortController()
    const end = () => over.abort()
    const cancel = this.deps.clock.after(TIMEOUT_MS, end)
    signal.addEventListener("abort", end)
    const overdue = new Promise<ResolvedReference>((resolve) => {
      over.signal.addEventListener("abort", () => resolve(OVERDUE))
    })
    try {
      return withoutNul(scheme, await Promise.race([this.valueOf(scheme, rest, allowed, over.signal), overdue]))
    } finally {
      cancel()
      signal.removeEventListener("abort", end)
    }
  }

  private valueOf(scheme: string, rest: string, allowed: boolean, signal: AbortSignal): Promise<ResolvedReference> {
    if (scheme === "keychain") return this.keychain(rest)
    return scheme === "file" ? this.file(rest) : this.command(rest, allowed, signal)
  }

  private async keychain(name: string): Promise<ResolvedReference> {
    if (name.trim() === "") return { problem: "which names no secret; write its name, such as ${keychain:GITHUB}" }
    try {
      const value = await this.deps.sources.keychain(name)
      if (value !== null) return { value }
      const remedy = isStorableName(name)
        ? `\`svc secret set ${shellWord(name, this.deps.world.platform === "win32")}\` stores it`
        : `choose a name that \`svc secret set\` can store, with ${NAME_RULE}`
      return { problem: `which the keychain does not have; ${remedy}` }
    } catch (error) {
      return {
        problem: `and the keychain cannot be read: ${messageOf(error)}; unlock it, then run \`svc secret refresh\``,
      }
    }
  }

  private async file(written: string): Promise<ResolvedReference> {
    if (written.trim() === "")
      return { problem: "which names no file; write its path, such as ${file:/run/secrets/github}" }
    const { home, folder } = this.deps.world
    const expanded = /^~[\\/]/.test(written) ? join(home, written.slice(2)) : written
    const path = isAbsolute(expanded) ? expanded : join(folder, expanded)
    try {
      const bytes = this.deps.sources.file(path)
      if (bytes.length > MAX_BYTES)
        return { problem: `and the file is longer than ${MAX_BYTES} bytes; a secret is shorter` }
      const value = textOf(bytes)
      if (value === undefined)
        return {
          problem: `and ${path} cannot be read: the file is not UTF-8 text; correct the file or the path, then run \`svc secret refresh\``,
        }
      // It may be written at the moment: a server keeps the value that it has.
      return value === ""
        ? { problem: `and ${path} is empty; write the secret to it, then run \`svc secret refresh\`` }
        : { value }
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException
      const reason = FILE_PROBLEMS[code] ?? messageOf(error)
      return {
        problem: `and ${path} cannot be read: ${reason}; correct the file or the path, then run \`svc secret refresh\``,
      }
    }
  }

  private async command(line: string, allowed: boolean, signal: AbortSignal): Promise<ResolvedReference> {
    if (!allowed) return { problem: COMMANDS_OFF }
    if (line.includes("\0")) return { problem: "which contains a NUL byte, which no command can contain; remove it" }
    const words = commandWords(line)
    if (words === undefined)
      return { problem: 'in which a quote is not closed; close it, or write \\" for the quote itself' }
    const [program = ""] = words
    if (program.trim() === "")
      return { problem: "which names no command; write one, such as ${cmd:op read op://vault/item/field}" }
    try {
      const { exitCode, stdout, stderr } = await this.deps.sources.command(words, signal)
      if (stdout.length > MAX_BYTES)
        return {
          problem: `and ${program} printed more than ${MAX_BYTES} bytes; make it print only the secret, then run \`svc secret refresh\``,
        }
      if (exitCode === 0) {
        const value = textOf(stdout)
        if (value === undefined)
          return {
            problem: `and ${program} printed what is no UTF-8 text; make it print text, for example base64, then run \`svc secret refresh\``,
          }
        return value === "" ? { problem: `and ${program} printed nothing; run the command by hand` } : { value }
      }
      const last = createRedactor([]).maskCredentials(
        stderr.trim().split("\n").at(-1)?.trim().slice(0, SHOWN_CHARS) ?? "",
      )
      return {
        problem: `and ${program} ended with exit code ${exitCode}${last === "" ? "" : `: ${last}`}; run the command by hand, then \`svc secret refresh\``,
      }
    } catch (error) {
      return { problem: `and ${program} cannot run: ${messageOf(error)}; install it, or write its full path` }
    }
  }
}

// ---

/** A value that is being asked for. `end` gives it up. */
type PendingValue = { readonly answer: Promise<boolean>; end(): void }

/** A value, and when it was asked for. */
type Known = { readonly outcome: ResolvedReference; readonly at: number }

/** How long a load of a running svc waits for its values. */
const PATIENCE_MS = 2000
/** How long a source may take: it may ask a person for a fingerprint or a password. */
const TIMEOUT_MS = 60_000
/** How long the value of a command is used. */
const COMMAND_MS = 60 * 60_000
const RETRY_MS = 60_000
const AT_ONCE = 8
const FILE_PROBLEMS: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "it does not exist",
  EACCES: "this user may not read it",
  EPERM: "this user may not read it",
}
const SHOWN_CHARS = 200

const OVERDUE: ResolvedReference = {
  problem: `and its source has not answered within ${TIMEOUT_MS / 1000} s; \`svc secret refresh\` asks again`,
}
const PENDING: ResolvedReference = { problem: "whose value svc is still waiting for" }
const COMMANDS_OFF =
  'and commands are off; write "allowCommands": true at the top level of mcp.json in the configuration directory, or start svc with --allow-commands'

/** Returns the text of a value without the line break at its end; undefined if it is not UTF-8. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "")
  } catch {
    return undefined
  }
}

/** Refuses a value that no variable, argument or header can have. */
function withoutNul(scheme: string, outcome: ResolvedReference): ResolvedReference {
  if (!("value" in outcome && outcome.value.includes("\0"))) return outcome
  return {
    problem: `and ${SOURCES[scheme] ?? "its value"} contains a NUL byte, which no variable can hold; store it encoded, for example as base64`,
  }
}

const SOURCES: Readonly<Record<string, string>> = {
  keychain: "the secret in the keychain",
  file: "the file",
  cmd: "the output of the command",
}

/** Returns the references that a configuration needs now, each once: those of its servers and registries that are on, and of its notifications. */
function referencesOf(document: Document, world: HostEnvironment): readonly string[] {
  const found = new Set<string>()
  const references = (reference: string) => {
    found.add(reference)
    return { value: "" }
  }
  for (const read of [plan, readRegistries, readNotifyTargets])
    try {
      read(document, { ...world, references })
    } catch (error) {
      // The load itself reports it.
      if (!(error instanceof ConfigError)) throw error
    }
  return [...found]
}

/** Returns the variables of a `.env`; none if it is malformed, which the load itself reports. */
function variablesOf(text: string): Readonly<Record<string, string>> {
  try {
    return parseDotenv(text, ".env")
  } catch {
    return {}
  }
}
