/** Differences of texts, line by line. */

/** One line of a difference. */
export type DiffLine = { readonly kind: "same" | "removed" | "added"; readonly text: string }

/** The lines of a difference, with two unchanged lines around each change. */
export function DiffLines({ lines }: { lines: readonly DiffLine[] }) {
  const isNear = (at: number) =>
    lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ kind }) => kind !== "same")
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it
    // biome-ignore lint/a11y/useSemanticElements: a pre keeps the blanks of the lines
    <pre class="code diff" tabIndex={0} role="group" aria-label="Changes">
      {lines.map(({ kind, text }, at) => {
        if (!isNear(at)) return at > 0 && isNear(at - 1) ? <span key={at}> …</span> : undefined
        return (
          <span key={at} class={kind}>
            <span aria-hidden="true">{MARKS[kind]} </span>
            <span class="hidden">{NAMES[kind]}</span>
            {text}
          </span>
        )
      })}
    </pre>
  )
}

/** Returns the lines of a difference as commands of svc print it: each begins with `+`, `-` or a blank. */
export const diffLinesOf = (text: string): readonly DiffLine[] =>
  text.split("\n").map((line) => {
    const kind = KINDS[line.charAt(0)] ?? "same"
    return { kind, text: line.startsWith("@@") ? line : line.slice(2) }
  })

// ---

const CONTEXT = 2
const MARKS = { same: " ", removed: "−", added: "+" } as const
const NAMES = { same: "", removed: "removed: ", added: "added: " } as const
const KINDS: Readonly<Record<string, DiffLine["kind"]>> = { "+": "added", "-": "removed" }
