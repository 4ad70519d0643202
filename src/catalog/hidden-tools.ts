/** Which tools `disabledTools` hides from clients, and whether it leaves a server without any. spec: Server object. */
import type { ServerSpec } from "../config/server-spec.ts"
import { qualify } from "./name.ts"

/** What decides which tools of a server are hidden. */
type HidingServer = Pick<ServerSpec, "name" | "slug"> & {
  readonly tuning: Pick<ServerSpec["tuning"], "disabledTools">
}

/** Whether `disabledTools` names a tool, by its local name or as `<server>_svc_<tool>`. */
export function isHidden({ name, slug, tuning: { disabledTools } }: HidingServer, tool: string): boolean {
  return (
    disabledTools.includes(tool) ||
    disabledTools.includes(qualify(slug, tool)) ||
    disabledTools.includes(qualify(name, tool))
  )
}

/** Returns " (2 hidden)" for texts that follow a count of tools; "" if none is hidden. */
export const hiddenNote = (hiddenTools = 0): string => (hiddenTools === 0 ? "" : ` (${hiddenTools} hidden)`)

/** One running instance of a server, or what is known of one. */
type ToolSource = {
  readonly spec: HidingServer
  readonly published: { readonly listing: { readonly tools: readonly { readonly name: string }[] } } | undefined
}

/**
 * Whether `disabledTools` would leave a server that has enabled tools now without one. A template may run as several
 * instances with different tools: true if it would leave any of them so.
 */
export function hidesEveryTool(instances: readonly ToolSource[], disabledTools: readonly string[]): boolean {
  return instances.some(({ spec, published }) => {
    const enabled = (published?.listing.tools ?? []).filter(({ name }) => !isHidden(spec, name))
    const changed = { ...spec, tuning: { disabledTools } }
    return enabled.length > 0 && enabled.every(({ name }) => isHidden(changed, name))
  })
}
