/** The log: one line per event on stderr. stdout belongs to results and to the stdio transport. */
import { createConsola, LogLevels } from "consola/core"
import type { Clock } from "./clock.ts"
import { type Look, paint, type Tone } from "./terminal.ts"

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export type LogFields = { readonly server?: string; readonly [key: string]: string | number | boolean | undefined }

/** A struct of functions, so that a test can collect lines. The log redacts messages; callers need not. */
export type Log = {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

/** Discards everything. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

export type LogOptions = {
  readonly level: LogLevel
  readonly format: "text" | "json"
  readonly clock: Clock
  /** The look of text lines on a terminal; undefined for a file or a pipe. */
  readonly look?: Look | undefined
  /** Removes secrets from a text. */
  mask(text: string): string
  /** Writes one line, with its line break. */
  write(line: string): void
}

/** Opens a log. Text lines are for people: time, level, server, message. JSON lines are for programs: one object each. */
export function openLog({ level, format, clock, look, mask, write }: LogOptions): Log {
  const render = format === "json" ? jsonLine : textLine(look)
  return createConsola({
    level: LogLevels[level],
    // No throttling: consola would merge equal lines.
    throttle: Number.NEGATIVE_INFINITY,
    reporters: [
      {
        log({ type, args: [message, fields] }) {
          write(`${render(clock.now(), type, String(message), (fields ?? {}) as LogFields, mask)}\n`)
        },
      },
    ],
  })
}

/** Returns the time and level before a line; on a terminal (with a look), the local time of day, and the level in color. */
export function lineHead(time: number, level: string, look: Look | undefined): string {
  const padded = level.padEnd(5)
  if (look === undefined) return `${new Date(time).toISOString()} ${padded}`
  const tone = LEVEL_TONES[level]
  const clock = new Date(time).toTimeString().slice(0, 8)
  return `${paint(clock, "faint", look)} ${tone === undefined ? padded : paint(padded, tone, look)}`
}

/** Escapes control and direction characters: a server's text must not forge a log line or drive a terminal. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (char) => {
    if (char === "\n") return "\\n"
    return char === "\t" ? " " : jsonEscape(char)
  })
}

/**
 * Escapes characters that JSON allows but that are invisible or blank, affect a terminal, or have no agreed shape (private
 * use, unassigned). Unicode counts the Braille blank and the null notehead as symbols, so they are listed by their numbers.
 */
export const escaped = (json: string): string => (ASCII.test(json) ? json : escapedUnicode(json))

/** Most texts are ASCII, and matching Unicode properties takes longer than all other work on a line of the audit log. */
const ASCII = /^[\n -~]*$/

const escapedUnicode = (json: string): string =>
  json.replace(
    /[\u007f-\u009f\u2800\u{1d159}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu,
    jsonEscape,
  )

/** Escapes all characters that are invisible, break lines or change the direction of text. */
export const visible = (text: string): string => escaped(printable(text))

// ---

const LEVEL_TONES: Readonly<Record<string, Tone>> = { debug: "faint", warn: "notice", error: "bad" }

type RenderLine = (time: number, level: string, message: string, fields: LogFields, mask: LogOptions["mask"]) => string

const jsonLine: RenderLine = (time, level, message, fields, mask) => {
  // Masks each text by itself: a mask over the whole line could swallow the quotes of a neighbouring value.
  const clean = (_key: string, value: unknown) => (typeof value === "string" ? mask(value) : value)
  return escaped(JSON.stringify({ time: new Date(time).toISOString(), level, message, ...fields }, clean))
}

const textLine =
  (look: Look | undefined): RenderLine =>
  (time, level, message, { server, ...fields }, mask) => {
    // Masks without the server's name: after a name such as `auth`, the message would look like a secret.
    const more = Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [` ${key}=${value}`]))
    const prefix = server === undefined ? "" : `${server}: `
    return `${lineHead(time, level, look)} ${printable(`${prefix}${mask(`${message}${more.join("")}`)}`)}`
  }

/** Returns a character as JSON escapes it: `\\u001b`, or two such escapes outside the Basic Multilingual Plane. */
const jsonEscape = (char: string): string =>
  Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")
