/**
 * Tables for people: aligned columns that fit the width of a terminal, with colors where the reader sees them.
 *
 *  1. A column without any value is left out.
 *  2. If the table is wider than the terminal, the values of its widest columns are cut, at the end of a word if possible, and
 *     end in `…`. The whole value belongs in a detail view, or in JSON. `Column` can exempt a column. Titles are cut last.
 *  3. Widths are columns of a terminal: a wide character takes two.
 *  4. Cells are escaped: a server's text cannot move the cursor or set colors.
 */
import { printable } from "./log.ts"
import { type Look, PAINTED, paint, type Tone } from "./terminal.ts"

/**
 * The title of a column, and how its values fit: `whole` values are never cut, such as an address that a user copies; `wrap`
 * values continue on the next line, such as advice; so do `words` values, such as a command, but inside a word only if the table
 * does not fit otherwise. Others are cut: a `path` at its beginning, because its end says more.
 */
export type Column = string | { readonly title: string; readonly fit: "whole" | "wrap" | "words" | "path" }

/** A value of a table, with or without a tone. */
export type Cell = string | { readonly text: string; readonly tone: Tone }

/**
 * Escapes control characters of each line, except for the colors that `paint` adds: a server that sends the same codes can
 * color its own text and nothing else.
 */
export const printableLines = (text: string): string =>
  text
    .split("\n")
    .map((line) =>
      line
        .split(PAINTED)
        // Every third part is the code of a color; the part after it is the text in that color.
        .map((part, at) => (at % 3 === 1 ? `\u001b[${part}m` : printable(part) + (at % 3 === 2 ? "\u001b[0m" : "")))
        .join(""),
    )
    .join("\n")

/** Formats rows as an aligned table with a head. */
export function formatTable(head: readonly Column[], rows: readonly (readonly Cell[])[], look: Look): string {
  const used = head.map((_, column) => rows.some((row) => textOf(row[column]) !== ""))
  const pick = <T>(row: readonly T[]) => row.filter((_, column) => used[column] === true)
  const columns = pick(head)
  const titles = columns.map((column): Cell => ({ text: titleOf(column).toUpperCase(), tone: "strong" }))
  const all = [titles, ...rows.map((row) => pick(head.map((_, column) => row[column] ?? "")))]
  const natural = titles.map((_, column) => Math.max(...all.map((row) => Bun.stringWidth(textOf(row[column])))))
  const least = columns.map((column, at) => {
    if (fitOf(column) === "whole") return natural[at] ?? 0
    const words = fitOf(column) === "words" ? all.flatMap((row) => textOf(row[at]).split(" ")) : []
    return Math.max(LEAST_WIDTH, ...[titleOf(column), ...words].map((text) => Bun.stringWidth(text)))
  })
  const room = look.width - GAP.length * (natural.length - 1)
  const unbroken = fit(natural, least, room)
  const broken = columns.map((column, at) => (fitOf(column) === "whole" ? (natural[at] ?? 0) : LEAST_WIDTH))
  const widths = fit(unbroken, broken, room)
  return all
    .flatMap((row) => {
      const cells = row.map((cell, column) => {
        const [text, width] = [textOf(cell), widths[column] ?? 0]
        const how = fitOf(columns[column])
        if (how === "whole" || how === "cut") return [cut(text, width)]
        if (how === "path") return [cutPath(text, width)]
        // A long word may stick out of the last column: no column follows.
        return wrapped(text, width, column < row.length - 1)
      })
      const height = Math.max(...cells.map((lines) => lines.length))
      return Array.from({ length: height }, (_, at) =>
        row
          .map((cell, column) => {
            const last = column === row.length - 1
            const text = cells[column]?.[at] ?? ""
            const painted = typeof cell === "string" ? text : paint(text, cell.tone, look)
            return last ? painted : painted + " ".repeat(Math.max(0, (widths[column] ?? 0) - Bun.stringWidth(text)))
          })
          .join(GAP)
          .trimEnd(),
      )
    })
    .join("\n")
}

/** Formats the facts about one thing, a line for each. A long value continues at a word on the next line, below its beginning. */
export function formatFacts(facts: readonly (readonly [label: string, value: Cell])[], look: Look): string {
  const filled = facts.filter(([, value]) => textOf(value) !== "")
  const indent = Math.max(...filled.map(([label]) => Bun.stringWidth(label))) + 2 * GAP.length
  const room = Math.max(look.width - indent, 20)
  return filled
    .map(([label, value]) => {
      const text = textOf(value)
      const body = wrapped(text, room)
        .map((line) => (typeof value === "string" ? line : paint(line, value.tone, look)))
        .join(`\n${" ".repeat(indent)}`)
      return `${paint(`${GAP}${label}`, "faint", look)}${" ".repeat(indent - GAP.length - Bun.stringWidth(label))}${body}`
    })
    .join("\n")
}

/** Wraps a line at words; the lines after the first are indented by two columns more than the first. */
export function wrap(line: string, { width }: Look): string {
  const indent = " ".repeat(line.length - line.trimStart().length)
  const room = Math.max(width - indent.length - GAP.length, 20)
  if (!Number.isFinite(room) || Bun.stringWidth(line) <= width) return line
  const [first = "", ...more] = Bun.wrapAnsi(line.trimStart(), room, { hard: false }).split("\n")
  return [indent + first, ...more.map((one) => indent + GAP + one)].join("\n")
}

/** Cuts a text to a number of columns, at a word if one ends in its second half. */
export function cut(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text
  const graphemes: string[] = []
  let taken = 0
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    taken += Bun.stringWidth(segment)
    if (taken > width - 1) break
    graphemes.push(segment)
  }
  const kept = graphemes.join("")
  const word = text[kept.length] === " " ? kept.length : kept.lastIndexOf(" ")
  return `${(word > kept.length / 2 ? kept.slice(0, word) : kept).replace(/[\s.,;:]+$/, "")}…`
}

/** Cuts the beginning of a path, between folders if its last part fits. */
export function cutPath(path: string, width: number): string {
  if (Bun.stringWidth(path) <= width) return path
  const parts = path.split(/(?=[/\\])/)
  const shorter = parts.map((_, at) => `…${parts.slice(at + 1).join("")}`).slice(0, -1)
  const fitting = shorter.find((one) => Bun.stringWidth(one) <= width)
  const reversed = (text: string) => Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment).reverse()
  return fitting ?? reversed(cut(reversed(path).join(""), width)).join("")
}

// ---

const GAP = "  "

/** No column is cut below this width. */
const LEAST_WIDTH = 8

const textOf = (cell: Cell | undefined): string => printable(typeof cell === "object" ? cell.text : (cell ?? ""))

const titleOf = (column: Column): string => (typeof column === "string" ? column : column.title)
const fitOf = (column: Column | undefined) => (typeof column === "object" ? column.fit : "cut")

/** Breaks a text at words into lines of a width; a word that is too long keeps its line, or is broken if `hard`. */
const wrapped = (text: string, width: number, hard = false): readonly string[] =>
  Number.isFinite(width) && Bun.stringWidth(text) > width ? Bun.wrapAnsi(text, width, { hard }).split("\n") : [text]

/** Shrinks the widest columns until all fit in `room`, or none is wider than its `least` width. */
function fit(natural: readonly number[], least: readonly number[], room: number): readonly number[] {
  const widths = [...natural]
  for (;;) {
    const excess = widths.reduce((sum, one) => sum + one, 0) - room
    const flexible = widths.filter((one, at) => one > (least[at] ?? 0))
    if (!(excess > 0) || flexible.length === 0) return widths
    const widest = Math.max(...flexible)
    const next = Math.max(0, ...flexible.filter((one) => one < widest))
    const wide = flexible.filter((one) => one === widest).length
    const target = Math.max(next, widest - Math.ceil(excess / wide))
    for (const [at, one] of widths.entries())
      if (one === widest) widths[at] = Math.min(one, Math.max(target, least[at] ?? 0))
  }
}
