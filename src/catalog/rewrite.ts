/**
 * URIs and ids of tasks inside what a backend says, put under their names in the aggregate. Objects are never changed in
 * place; members that are not known are kept.
 */
import { META_TASK } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Tool } from "./listing.ts"
import { qualify, qualifyUri, splitName } from "./name.ts"

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
      return qualifyTask(rewriteToolResult(result, slug), slug)
    case "tasks/get":
    case "tasks/cancel":
      return withTaskId(qualifyTask(rewriteToolResult(result, slug), slug), slug)
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

/** Params of a notification with its URI or its task as the view names it. */
export function rewriteNotification(method: string, params: Params, slug: string): Params {
  const named = method === "notifications/tasks/status" ? withTaskId(params, slug) : params
  return qualifyTask(withUri(named, slug), slug)
}

/** The id of the task that a call has become, if it has. 2025-11-25: `task`; the tasks extension: `resultType`. */
export function createdTask(result: Params): string | undefined {
  const task = result.resultType === "task" ? result : result.task
  return isObject(task) && typeof task.taskId === "string" ? task.taskId : undefined
}

/** A message's params or a result with the task it belongs to as the aggregate names it. */
export const qualifyTask = (value: Params, slug: string): Params => renameTask(value, (id) => qualify(slug, id))

/** A message's params or a result with the task it belongs to as its backend names it. */
export const unqualifyTask = (value: Params): Params => renameTask(value, (id) => splitName(id)?.name ?? id)

// ---

function renameTask(value: Params, rename: (id: string) => string): Params {
  const meta = value._meta
  const task = isObject(meta) ? meta[META_TASK] : undefined
  if (!isObject(meta) || !isObject(task) || typeof task.taskId !== "string") return value
  return { ...value, _meta: { ...meta, [META_TASK]: { ...task, taskId: rename(task.taskId) } } }
}

const withTaskId = (value: Params, slug: string): Params =>
  typeof value.taskId === "string" ? { ...value, taskId: qualify(slug, value.taskId) } : value

function rewriteToolResult(result: Params, slug: string): Params {
  if (result.resultType === "task") return withTaskId(result, slug)
  if (isObject(result.task) && createdTask(result) !== undefined)
    return { ...result, task: withTaskId(result.task, slug) }
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

function withUri<T>(value: T, slug: string): T {
  return isObject(value) && typeof value.uri === "string" ? { ...value, uri: qualifyUri(slug, value.uri) } : value
}
