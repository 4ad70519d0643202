/** Filters of lists by words. */

/** Returns a function that tells whether a text contains every word of the query, in any case and order. */
export function wordFilter(query: string): (text: string) => boolean {
  const words = query.toLowerCase().split(/\s+/)
  return (text) => {
    const lower = text.toLowerCase()
    return words.every((word) => lower.includes(word))
  }
}

/** Returns how long a text has to stay to be read, at 180 words a minute. */
export const readingMs = (text: string): number => Math.max(6000, text.length * 60)
