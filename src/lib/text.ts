/** Returns the beginning of a text, `length` UTF-16 units at most, and never half of a surrogate pair. */
export const cutText = (text: string, length: number): string =>
  text.length <= length ? text : text.slice(0, Math.max(0, length)).replace(/[\uD800-\uDBFF]$/, "")

/** Formats a number of things: `1 tool`, `2 tools`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

/** Formats how often something happened: `once`, `2 times`. */
export const times = (count: number): string => (count === 1 ? "once" : `${count} times`)

/** Decodes percent-encoded UTF-8; returns any other text unchanged. */
export function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Returns a path to show to users: `~` stands for the home directory. */
export const shortPath = (path: string, home: string): string =>
  path === home || path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path
