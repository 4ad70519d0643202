/**
 * Asks a person before svc runs something new, or changes what other clients' models read. If the client cannot ask, the
 * operator decides once, with `--confirm-installs` and `--confirm-edits`. choice: Internal tools.
 */
import { visible } from "../../lib/log.ts"
import type { Question } from "./consent-text.ts"
import { type ToolContext, ToolError } from "./tool.ts"

/** The kinds of consent: to what runs, and to what other clients' models read. An option of svc waives each. */
export type ConsentKind = keyof ToolContext["preapproved"]

/** The consents for starting a server that was not meant to run: it runs, and every client's model reads its tools. */
export const STARTING: readonly [ConsentKind, ...ConsentKind[]] = ["installs", "edits"]

/** Asks a person once. Throws a ToolError if the person declines, or if the client cannot ask and no flag approves it. */
export async function confirm(
  { person, preapproved }: Pick<ToolContext, "person" | "preapproved">,
  consents: readonly [ConsentKind, ...ConsentKind[]],
  { what, shown, masked }: Question,
): Promise<void> {
  if (person !== undefined) {
    const yes = `Yes, ${consents.includes("installs") ? "run" : "change"} exactly this`
    if (await person.agrees(`${visible(what)}?\n\n${shown}`, yes)) return
    throw new ToolError("declined", "The person declined; nothing was changed", { data: { command: masked } })
  }
  const lacking = consents.filter((consent) => !preapproved[consent]).map((consent) => `--confirm-${consent} off`)
  if (lacking.length === 0) return
  throw new ToolError(
    "confirmation_required",
    "A person must approve this first, but this client cannot ask (it does not support elicitation). Show the command to the person, " +
      `and let them run it in a terminal (\`svc mcp install\`, \`edit\`, \`enable\`, \`disable\`, \`uninstall\`) or start svc with ${lacking.join(" and ")}.`,
    { data: { command: masked } },
  )
}
