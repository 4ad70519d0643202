/** What the list of tools and the page of one tool both show of it. */
import { StateMark } from "../parts.tsx"
import type { Tool } from "../types.ts"

/** Returns the tokens of a tool as `svc tokens` counts them; an estimate until svc has counted, and 0 for one that clients do not see. */
export const tokensOf = ({ tokens, characters = 0, disabled }: Tool): number =>
  disabled ? 0 : (tokens ?? Math.ceil(characters / CHARACTERS_PER_TOKEN))

/** Most of a definition is names that repeat in every schema. */
const CHARACTERS_PER_TOKEN = 8

/** The visibility of a tool, with the reason if it is hidden. */
export function ToolState({ tool: { disabled, held, gone } }: { tool: Tool }) {
  if (gone === true) return <StateMark state="no such tool" tone="notice" />
  if (held === true) return <StateMark state="held" tone="notice" />
  return disabled ? <StateMark state="hidden" tone="faint" /> : <StateMark state="visible" tone="good" />
}
