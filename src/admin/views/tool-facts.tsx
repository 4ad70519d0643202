/** What the list of tools and the page of one tool both show of it. */
import { StateMark } from "../parts.tsx"
import type { Tool } from "../types.ts"

/** Returns the tokens of a tool as `svc tokens` counts them; at four characters per token for one that clients do not see. */
export const tokensOf = ({ tokens, characters = 0 }: Tool): number => tokens ?? Math.ceil(characters / 4)

/** The visibility of a tool, with the reason if it is hidden. */
export function ToolState({ tool: { disabled, held, gone } }: { tool: Tool }) {
  if (gone === true) return <StateMark state="no such tool" tone="notice" />
  if (held === true) return <StateMark state="held" tone="notice" />
  return disabled ? <StateMark state="hidden" tone="faint" /> : <StateMark state="visible" tone="good" />
}
