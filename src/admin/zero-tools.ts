/** Asks for confirmation before a change that leaves a server without an enabled tool. */
import { Problem } from "./api.ts"
import type { Ui } from "./ui.ts"

/** Sends a change, and again if the person confirms that a server then offers no tools. Returns whether it was made. */
export async function askForZeroTools(ui: Ui, send: (confirmZeroTools: boolean) => Promise<unknown>): Promise<boolean> {
  try {
    await send(false)
    return true
  } catch (error) {
    if (!(error instanceof Problem) || error.data.reason !== "confirmation_required") throw error
    const { servers } = error.data
    const names = Array.isArray(servers) ? servers.map(String).join(", ") : "The server"
    const isAgreed = await ui.ask({
      title: "Hide the last tool too?",
      text: `${names} would no longer offer any tool, so clients would not see the server.`,
      action: "Hide all tools",
      isDangerous: true,
    })
    if (!isAgreed) return false
    await send(true)
    return true
  }
}
