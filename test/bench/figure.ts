/** A figure with its target, and a table of figures. */

export type Figure = {
  readonly what: string
  readonly value: number
  readonly unit: string
  /** The target: at least, or at most. */
  readonly aim?: { readonly least: number } | { readonly most: number }
  /** The measured values behind the figure, for people. */
  readonly from?: string
}

/** The figures of a group of measurements, and the reasons why some are missing. */
export type Measured = { readonly figures: readonly Figure[]; readonly missing?: readonly string[] }

export function isReached({ value, aim }: Figure): boolean {
  if (aim === undefined) return true
  return "least" in aim ? value >= aim.least : value <= aim.most
}

/** Returns a Markdown table. */
export function tableOf(figures: readonly Figure[]): string {
  const rows = figures.map((figure) => [
    figure.what,
    show(figure.value, figure.unit),
    aimOf(figure),
    verdictOf(figure),
    figure.from ?? "",
  ])
  const head = ["measurement", "result", "target", "reached", "measured values"]
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => (row[column] ?? "").length)))
  const line = (cells: readonly string[]) => `| ${cells.map((cell, n) => cell.padEnd(widths[n] ?? 0)).join(" | ")} |`
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rows.map(line)].join("\n")
}

/** Formats a number with its significant digits. */
export const digits = (value: number): string =>
  Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString("en-US")
    : String(Number(value.toPrecision(Math.abs(value) >= 100 ? 3 : 2)))

// ---

const show = (value: number, unit: string): string => (unit === "" ? digits(value) : `${digits(value)} ${unit}`)

function aimOf({ aim, unit }: Figure): string {
  if (aim === undefined) return ""
  return "least" in aim ? `≥ ${show(aim.least, unit)}` : `≤ ${show(aim.most, unit)}`
}

function verdictOf(figure: Figure): string {
  if (figure.aim === undefined) return ""
  return isReached(figure) ? "yes" : "NO"
}
