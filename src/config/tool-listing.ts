/** The tools that a view lists: all, or (a lazy view) only svc's search tools and the tools that are always visible. */
export const TOOL_LISTINGS = ["all", "search"] as const
export type ToolListing = (typeof TOOL_LISTINGS)[number]
