/** The log: one line an event, to stderr, never to stdout, which belongs to results and to the stdio transport. */
import { createConsola, LogLevels } from "consola/core"
import type { Clock } from "./clock.ts"

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const
export type LogLevel = (typeof LOG_LEVELS)[number]
export type LogFields = { readonly server?: string; readonly [key: string]: string | number | boolean | undefined }

/** A struct of functions, so that a test can collect lines. Messages are redacted by the writer, not by the caller. */
export type Log = {
  debug(message: string, fields?: LogFields): void
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

/** A log that goes nowhere. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} }

export type LogOptions = {
  readonly level: LogLevel
  readonly format: "text" | "json"
  readonly clock: Clock
  /** Takes secrets out of text. */
  mask(text: string): string
  /** Takes one line with its break. */
  write(line: string): void
}

/** Opens a log. Text lines are for people: time, level, server, message. JSON lines are for programs: one object each. */
export function openLog({ level, format, clock, mask, write }: LogOptions): Log {
  const render = format === "json" ? jsonLine : textLine
  return createConsola({
    level: LogLevels[level],
    // consola would hold equal lines back; every line counts here.
    throttle: Number.NEGATIVE_INFINITY,
    reporters: [
      {
        log({ type, args: [message, fields] }) {
          const time = new Date(clock.now()).toISOString()
          write(`${render(time, type, String(message), (fields ?? {}) as LogFields, mask)}\n`)
        },
      },
    ],
  })
}

/** Text with its control and direction characters escaped: a server's words must not forge a line or drive a terminal. */
export function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (char) =>
    char === "\n" ? "\\n" : char === "\t" ? " " : code(char),
  )
}

/** A line of JSON with what JSON lets stand, and a terminal or a reader may stumble over or not see, escaped too. */
export const escaped = (json: string): string =>
  json.replace(/[\u007f-\u009f\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu, code)

/** Text in which nothing is invisible, makes a line of its own or turns the direction of what stands beside it. */
export const visible = (text: string): string => escaped(printable(text))

// ---

type RenderLine = (time: string, level: string, message: string, fields: LogFields, mask: LogOptions["mask"]) => string

const jsonLine: RenderLine = (time, level, message, fields, mask) => {
  // Masks each text by itself: a mask over the whole line could swallow the quotes of a neighbouring value.
  const clean = (_key: string, value: unknown) => (typeof value === "string" ? mask(value) : value)
  return escaped(JSON.stringify({ time, level, message, ...fields }, clean))
}

const textLine: RenderLine = (time, level, message, { server, ...fields }, mask) => {
  // Masks without the server's name: a server called `auth` does not make a secret of the message after it.
  const more = Object.entries(fields).flatMap(([key, value]) => (value === undefined ? [] : [` ${key}=${value}`]))
  const prefix = server === undefined ? "" : `${server}: `
  return `${time} ${level.padEnd(5)} ${printable(`${prefix}${mask(`${message}${more.join("")}`)}`)}`
}

/** Of a character beyond the first plane there are two. */
const code = (char: string): string =>
  Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("")
