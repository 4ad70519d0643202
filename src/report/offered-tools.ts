/** The tools of a server as people see them, with what svc keeps from clients: one shape for commands and REST. */
import { nameIn } from "../catalog/catalog.ts"
import { knownTools, type Listing, type Tool, uniqueByName } from "../catalog/listing.ts"
import { type ToolRow, toolRows, withOverrides } from "../catalog/tool-settings.ts"
import type { ServerSpec } from "../config/server-spec.ts"

/** A tool of a server. */
export type OfferedTool = ToolRow & {
  readonly server: string
  /** Its name in the aggregate. */
  readonly qualifiedName: string
  /** Its definition as clients see it, under its own name; undefined for a name that is of no tool. */
  readonly definition?: Tool
}

/** Returns the tools of a server, and the hidden names that are of none. `listing` is undefined while it is not connected. */
export function offeredTools(
  spec: ServerSpec,
  listing: Listing | undefined,
  isHeld: (tool: string) => boolean,
): readonly OfferedTool[] {
  const known = listing && knownTools(listing)
  const byName = new Map(uniqueByName(known ?? []).map((tool) => [tool.name, tool]))
  return toolRows(spec, known, isHeld).map((row): OfferedTool => {
    const own = byName.get(row.name)
    return {
      server: spec.name,
      ...row,
      qualifiedName: nameIn("qualified", spec, row.name),
      ...(own === undefined ? {} : { definition: withOverrides(spec, own) }),
    }
  })
}
