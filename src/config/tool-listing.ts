/** Which tools a client is listed: all, or in a lazy view svc's search tools and the pinned ones alone. */
export const TOOL_LISTINGS = ["all", "search"] as const
export type ToolListing = (typeof TOOL_LISTINGS)[number]
