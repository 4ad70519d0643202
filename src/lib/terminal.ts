/** Writes to a terminal: its width, its colors, and one line that is replaced in place. */

/** What a text means to its reader; each meaning has a color. */
export type Tone = "good" | "notice" | "bad" | "faint" | "strong"

/** The width of an output in columns (infinite for a file or a pipe), and whether it shows colors. */
export type Look = { readonly width: number; readonly color: boolean }

type OutputStream = { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined }
type Variables = Readonly<Record<string, string | undefined>>

/** Returns the look of a stream. `COLUMNS` overrides the width, `NO_COLOR` and `FORCE_COLOR` the colors. */
export function lookOf(stream: OutputStream, env: Variables): Look {
  const stated = Number(env.COLUMNS)
  const natural = stream.isTTY === true ? stream.columns || 80 : Number.POSITIVE_INFINITY
  return { width: Number.isInteger(stated) && stated > 0 ? stated : natural, color: showsColor(stream, env) }
}

/** Paints a text if the output shows colors. */
export const paint = (text: string, tone: Tone, { color }: Look): string =>
  color && text !== "" ? `\u001b[${CODES[tone]}m${text}\u001b[0m` : text

/** Matches a painted text; its groups are the code and the text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
export const PAINTED = /\u001b\[(32|33|31|2|1)m([^\u001b]*)\u001b\[0m/

/** Lines on a terminal, and below them one line in place. The two never mix. */
export type LiveOutput = {
  /** Writes lines, with their line breaks, above the line in place. */
  write(lines: string): void
  /** Replaces the line in place; an empty text removes it. The text must be narrower than the terminal. */
  show(text: string): void
}

/** Creates the output of a terminal. */
export function createLiveOutput(write: (text: string) => void): LiveOutput {
  let shown = ""
  return {
    write: (lines) => write(shown === "" ? lines : `${ERASE_LINE}${lines}${shown}`),
    show(text) {
      if (text !== shown) write(shown === "" ? text : `${ERASE_LINE}${text}`)
      shown = text
    },
  }
}

// ---

const CODES: Readonly<Record<Tone, number>> = { good: 32, notice: 33, bad: 31, faint: 2, strong: 1 }

const ERASE_LINE = "\r\u001b[2K"

function showsColor({ isTTY }: OutputStream, { FORCE_COLOR, NO_COLOR, TERM }: Variables): boolean {
  if (FORCE_COLOR !== undefined && FORCE_COLOR !== "") return FORCE_COLOR !== "0" && FORCE_COLOR !== "false"
  return isTTY === true && !NO_COLOR && TERM !== "dumb"
}
