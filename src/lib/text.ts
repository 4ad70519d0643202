/** Returns the beginning of a text, `length` UTF-16 units at most, and never half of a surrogate pair. */
export const cutText = (text: string, length: number): string =>
  text.length <= length ? text : text.slice(0, Math.max(0, length)).replace(/[\uD800-\uDBFF]$/, "")
