/**
 * The tools that svc lists in a lazy view instead of the servers' tools, and the unlisted tools that clients may call there.
 * Their texts are part of every conversation, so each word counts. choice: Views.
 */

/** The tools of a lazy view that run another tool. */
const WRAPPERS = ["call_tool", "call_read_tool", "tool_invoke"] as const
export type LazyWrapper = (typeof WRAPPERS)[number]

/** The tools that search and describe; `get_tool_details`, `tool_list` and `tool_schema` are not listed. */
const FINDERS = ["search_tools", "describe_tool", "get_tool_details", "tool_list", "tool_schema"] as const

/** Whether a name belongs to a tool that runs another tool. */
export const isWrapper = (name: unknown): name is LazyWrapper => (WRAPPERS as readonly unknown[]).includes(name)

/** Whether a name belongs to a tool of lazy views, listed or not. */
export const isLazyTool = (name: unknown): boolean => isWrapper(name) || (FINDERS as readonly unknown[]).includes(name)

/** The listed tools, as JSON texts of `tools/list`. */
export const LAZY_TOOLS: readonly string[] = [
  {
    name: "search_tools",
    description:
      "Find tools by what they do. Most tools are not listed: search here, then run what you found with call_tool. An empty query lists the tools of a server.",
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", description: "What the tool should do, in a few words" },
        server: { type: "string", description: "Search this server only" },
        limit: { type: "integer", description: "Default 8" },
        detail: { type: "string", enum: ["name", "summary", "full"], description: "full: with schemas" },
      },
      required: ["query"],
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: "describe_tool",
    description: "Get the full definitions of tools, with their schemas.",
    inputSchema: {
      type: "object",
      properties: { names: { type: "array", items: { type: "string" } } },
      required: ["names"],
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: "call_tool",
    description: "Run any tool by its full name.",
    inputSchema: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { type: "object" } },
      required: ["name"],
    },
  },
  {
    name: "call_read_tool",
    description: "Run a tool marked [read-only]; refuses others.",
    inputSchema: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { type: "object" } },
      required: ["name"],
    },
    annotations: { readOnlyHint: true },
  },
].map((tool) => JSON.stringify(tool))
