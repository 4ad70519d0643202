/** The tools of a server for people, including those that svc hides from clients: one shape for commands and REST. */
import { nameIn } from "../catalog/catalog.ts"
import { knownTools, type Listing, type Tool, uniqueByName } from "../catalog/listing.ts"
import { type ToolRow, toolRows, withOverrides } from "../catalog/tool-settings.ts"
import type { ServerSpec } from "../config/server-spec.ts"

/** A tool of a server. */
export type OfferedTool = ToolRow & {
  readonly server: string
  /** Its name in the aggregate. */
  readonly qualifiedName: string
  /** Its definition as clients see it, but under its own name; undefined for a name that no tool has. */
  readonly definition?: Tool
}

/** Returns the tools of a server, and hidden names that no tool has. `listing` is undefined while the server is not connected. */
export function offeredTools(
  spec: ServerSpec,
  listing: Listing | undefined,
  isHeld: (tool: string) => boolean,
  nameOf = (tool: string): string => nameIn("qualified", spec, tool),
): readonly OfferedTool[] {
  const known = listing && knownTools(listing)
  const byName = new Map(uniqueByName(known ?? []).map((tool) => [tool.name, tool]))
  return toolRows(spec, known, isHeld).map((row): OfferedTool => {
    const own = byName.get(row.name)
    return {
      server: spec.name,
      ...row,
      qualifiedName: nameOf(row.name),
      ...(own === undefined ? {} : { definition: withOverrides(spec, own) }),
    }
  })
}
