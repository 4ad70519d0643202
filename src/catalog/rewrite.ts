/**
 * URIs inside what a backend says, put under their names in the aggregate. Objects are never changed in place; members
 * that are not known are kept.
 */
import { isObject, type Params } from "../wire/message.ts"
import type { Tool } from "./listing.ts"
import { qualifyUri } from "./name.ts"

/** A tool's MCP Apps resource (`_meta.ui.resourceUri`, and the older `_meta["ui/resourceUri"]`). From: MCP Apps. */
export function rewriteTool(tool: Tool, slug: string): Tool {
  const meta = tool._meta
  if (!isObject(meta)) return tool
  const changed: Record<string, unknown> = { ...meta }
  if (isObject(meta.ui) && typeof meta.ui.resourceUri === "string")
    changed.ui = { ...meta.ui, resourceUri: qualifyUri(slug, meta.ui.resourceUri) }
  if (typeof meta["ui/resourceUri"] === "string") changed["ui/resourceUri"] = qualifyUri(slug, meta["ui/resourceUri"])
  return { ...tool, _meta: changed }
}

/**
 * A result of `method` with the URIs it names qualified: `contents[].uri` of a resource read, `resource_link` and
 * embedded `resource` blocks of tool results and prompt messages.
 */
export function rewriteResult(method: string, result: Params, slug: string): Params {
  switch (method) {
    case "resources/read":
      return Array.isArray(result.contents)
        ? { ...result, contents: result.contents.map((content: unknown) => withUri(content, slug)) }
        : result
    case "tools/call":
    case "tasks/result":
    case "tasks/get":
      return rewriteToolResult(result, slug)
    case "prompts/get":
      return Array.isArray(result.messages)
        ? {
            ...result,
            messages: result.messages.map((message: unknown) =>
              isObject(message) ? { ...message, content: rewriteBlock(message.content, slug) } : message,
            ),
          }
        : result
    default:
      return result
  }
}

/** The data of an error with the URI it names qualified. */
export function rewriteErrorData(data: unknown, slug: string): unknown {
  return withUri(data, slug)
}

/** Params of a notification with its URI as the view names it. */
export function rewriteNotification(params: Params, slug: string): Params {
  return typeof params.uri === "string" ? { ...params, uri: qualifyUri(slug, params.uri) } : params
}

// ---

function rewriteToolResult(result: Params, slug: string): Params {
  const changed = Array.isArray(result.content)
    ? { ...result, content: result.content.map((block: unknown) => rewriteBlock(block, slug)) }
    : result
  return isObject(changed.result) ? { ...changed, result: rewriteToolResult(changed.result, slug) } : changed
}

function rewriteBlock(block: unknown, slug: string): unknown {
  if (Array.isArray(block)) return block.map((inner: unknown) => rewriteBlock(inner, slug))
  if (!isObject(block)) return block
  if (block.type === "resource_link") return withUri(block, slug)
  if (block.type === "resource") return { ...block, resource: withUri(block.resource, slug) }
  return block
}

function withUri(value: unknown, slug: string): unknown {
  return isObject(value) && typeof value.uri === "string" ? { ...value, uri: qualifyUri(slug, value.uri) } : value
}
