/** Requires a confirmation of changes that leave a server without an enabled tool. */
import { hidesEveryTool } from "../../catalog/tool-settings.ts"
import { RequestError } from "../../lib/errors.ts"
import type { Params } from "../../wire/message.ts"
import type { RestPorts } from "./endpoint.ts"

/** Throws a RequestError (conflict) if the request does not confirm that servers, as they will be written, offer no tool. */
export function requireTools(
  { agent }: Pick<RestPorts, "agent">,
  servers: readonly (readonly [name: string, server: Params])[],
  confirmZeroTools: boolean,
): void {
  if (confirmZeroTools) return
  const emptied = servers.flatMap(([name, { disabledTools }]) =>
    hidesEveryTool(agent.find(name), Array.isArray(disabledTools) ? disabledTools.map(String) : []) ? [name] : [],
  )
  if (emptied.length > 0)
    throw new RequestError(
      "conflict",
      `${emptied.join(", ")} would no longer offer any tool; send confirmZeroTools: true to hide the last tool`,
      { reason: "confirmation_required", servers: emptied },
    )
}
