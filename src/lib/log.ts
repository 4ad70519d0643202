/** The log: lines to stderr, never to stdout, which belongs to results and to the stdio transport. */

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
