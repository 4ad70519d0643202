/** Draws the pictures of docs/screens from what the built binary shows, on a terminal and in Chromium: `bun run screens`, after `bun run build`. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { recordScreens } from "../test/golden/record.ts"
import { recordPages } from "../test/golden/record-admin.ts"

/** Draws a screen as an SVG: a prompt with the command, and what it showed. */
export function drawScreen(command: string, shown: string, columns: number): string {
  const lines = [
    `\u001b[2m$\u001b[0m ${command}`,
    ...Bun.wrapAnsi(shown, columns, { hard: true, trim: false }).split("\n"),
  ]
  const width = columns * CELL_WIDTH + 2 * MARGIN
  const height = lines.length * LINE_HEIGHT + 2 * MARGIN
  const rows = lines.map((line, at) => {
    const y = MARGIN + at * LINE_HEIGHT + BASELINE
    return `<text x="${MARGIN}" y="${y}" xml:space="preserve">${drawLine(line)}</text>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeXml(command)}">
<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9}.good{fill:#8fbc6a}.notice{fill:#e5c07b}.bad{fill:#ef7683}.faint{fill:#8b95a5}.strong{font-weight:bold;fill:#fff}</style>
<rect width="${width}" height="${height}" rx="8" fill="#1e222a"/>
${rows.join("\n")}
</svg>
`
}

// ---

const CELL_WIDTH = 8.5
const LINE_HEIGHT = 19
const BASELINE = 14
const MARGIN = 16
const COLUMNS = 88

const CLASSES: Readonly<Record<string, string>> = { 32: "good", 33: "notice", 31: "bad", 2: "faint", 1: "strong" }

/** Draws a line with the colors of `lib/terminal.ts`. */
const drawLine = (line: string): string =>
  line
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
    .split(/\u001b\[(\d+)m([^\u001b]*)\u001b\[0m/)
    .map((part, at) => {
      if (at % 3 === 0) return escapeXml(part)
      return at % 3 === 1 ? `<tspan class="${CLASSES[part]}">` : `${escapeXml(part)}</tspan>`
    })
    .join("")

const escapeXml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

if (import.meta.main) {
  const folder = join(import.meta.dir, "..", "docs", "screens")
  mkdirSync(folder, { recursive: true })
  for (const { name, command, shown } of await recordScreens(COLUMNS))
    writeFileSync(join(folder, `${name}.svg`), drawScreen(command, shown, COLUMNS))
  for (const { name, image } of await recordPages()) writeFileSync(join(folder, `${name}.png`), image)
}
