/** What commands print: results to stdout, tables for people and JSON for programs; talk to stderr. */

import type { EffectiveValue } from "../config/effective.ts"
import { escaped, printable } from "../lib/log.ts"

/** Rows as a table with a head, columns aligned; empty columns are left out. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = head.map((_, column) => rows.some((row) => (row[column] ?? "") !== ""))
  const pick = (row: readonly string[]) => row.filter((_, column) => used[column] === true).map(printable)
  const all = [pick(head.map((title) => title.toUpperCase())), ...rows.map(pick)]
  const widths = (all[0] ?? []).map((_, column) => Math.max(...all.map((row) => Bun.stringWidth(row[column] ?? ""))))
  return all
    .map((row) =>
      row
        .map((cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(cell))))
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}

/** Effective values with where each came from. */
export const effectiveTable = (effective: readonly EffectiveValue[]): string =>
  table(
    ["key", "value", "from"],
    effective.map((row) => [`  ${row.key}`, row.value, row.from.join(", ")]),
  )

/** Prints a result: JSON where it is asked for, else text. Servers' words in it do not drive the terminal. */
export function print(asJson: boolean, value: unknown, text: () => string): void {
  const out = asJson ? escaped(JSON.stringify(value, null, 2)) : printableLines(text())
  if (out !== "") process.stdout.write(`${out}\n`)
}

/** Says something that is no result. */
export const say = (text: string): void => void process.stderr.write(`${printableLines(text)}\n`)

const printableLines = (text: string): string => text.split("\n").map(printable).join("\n")

/** Writes to the client at the other end of stdout. `onend` is told why it takes no more: `limit` is what may wait for it. */
export function createStdoutWriter(limit: number, onend: (reason: string) => void): (bytes: Uint8Array) => void {
  let waiting = 0
  process.stdout.on("error", () => onend("client disconnected"))
  return (bytes) => {
    waiting += bytes.length
    process.stdout.write(bytes, () => {
      waiting -= bytes.length
    })
    if (waiting > limit) onend("client does not read")
  }
}

/** Writes to stderr. Many that start svc do not read it: what comes while more than `limit` bytes wait is lost. */
export function createStderrWriter(limit: number): (line: string) => void {
  let waiting = 0
  return (line) => {
    if (waiting > limit) return
    waiting += line.length
    process.stderr.write(line, () => {
      waiting -= line.length
    })
  }
}

/** `3 minutes`, for people. */
export function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  for (const [size, name] of [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
  ] as const)
    if (seconds >= size) return `${Math.floor(seconds / size)} ${name}`
  return `${seconds} s`
}
