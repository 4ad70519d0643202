/**
 * Replaces URIs and task ids in a backend's results and notifications with their names in the aggregate. Never changes an
 * object in place; keeps unknown members.
 */
import { numberOf } from "../lib/json.ts"
import { type Era, META_TASK } from "../wire/era.ts"
import { isObject, type Params } from "../wire/message.ts"
import type { Tool } from "./listing.ts"
import { qualify, qualifyUri } from "./name.ts"

/** Returns a tool with its MCP Apps resource qualified (`_meta.ui.resourceUri`, and the older `_meta["ui/resourceUri"]`). From: MCP Apps. */
export function rewriteTool(tool: Tool, slug: string): Tool {
  const meta = tool._meta
  if (!isObject(meta)) return tool
  const changed: Record<string, unknown> = { ...meta }
  if (isObject(meta.ui) && typeof meta.ui.resourceUri === "string")
    changed.ui = { ...meta.ui, resourceUri: qualifyUri(slug, meta.ui.resourceUri) }
  if (typeof meta["ui/resourceUri"] === "string") changed["ui/resourceUri"] = qualifyUri(slug, meta["ui/resourceUri"])
  return { ...tool, _meta: changed }
}

/** Maps a backend's own URIs and task ids to the names that one client sees. */
export type Names = { uri(uri: string): string; task(id: string): string }

/** Returns the mapping to qualified names. `mark` is applied to a task's id first. */
export const qualifiedNames = (slug: string, mark: (id: string) => string = (id) => id): Names => ({
  uri: (uri) => qualifyUri(slug, uri),
  task: (id) => qualify(slug, mark(id)),
})

/**
 * Returns a result of `method`, from a server of this era, with its URIs and task ids renamed: `contents[].uri` of a resource
 * read, `resource_link` and embedded `resource` blocks of tool results and prompt messages, skills and their files, and tasks.
 */
export function rewriteResult(method: string, result: Params, names: Names, era: Era): Params {
  switch (method) {
    case "resources/read":
      return mapped(result, "contents", (content) => withUri(content, names))
    case "resources/directory/read":
      return mapped(result, "resources", (resource) => withUri(resource, names))
    case "skills/list":
      return mapped(result, "skills", (skill) => rewriteSkill(skill, names))
    case "skills/get":
      return { ...result, skill: rewriteSkill(result.skill, names) }
    case "tools/call":
    case "tasks/result":
      return renameTask(rewriteToolResult(result, names, era), names.task)
    case "tasks/get":
    case "tasks/update":
    case "tasks/cancel":
      return withTaskId(renameTask(rewriteToolResult(result, names, era), names.task), names)
    case "prompts/get":
      return mapped(result, "messages", (message) =>
        isObject(message) ? { ...message, content: rewriteBlock(message.content, names) } : message,
      )
    default:
      return renameTask(result, names.task)
  }
}

/** Returns the data of an error with its `uri` renamed. */
export function rewriteErrorData(data: unknown, names: Names): unknown {
  return withUri(data, names)
}

/** Returns the params of a notification with its URI and its task renamed. */
export function rewriteNotification(method: string, params: Params, names: Names): Params {
  const renamed = method === "notifications/tasks/status" ? withTaskId(params, names) : params
  return renameTask(withUri(renamed, names), names.task)
}

/** A task that a call became, and the milliseconds for which its server keeps it; undefined if that is not limited. */
export type CreatedTask = { readonly id: string; readonly ttl: number | undefined }

/** Returns the task that a call became, or undefined. 2025-11-25: `task`; tasks extension: `resultType`. */
export function createdTask(result: Params, era: Era): CreatedTask | undefined {
  if (era === "modern" && result.resultType !== "task") return undefined
  const task = era === "modern" ? result : result.task
  if (!isObject(task) || typeof task.taskId !== "string") return undefined
  return { id: task.taskId, ttl: numberOf(era === "modern" ? task.ttlMs : task.ttl) }
}

/** Returns params or a result with the id of its related task (`_meta`) renamed. */
export function renameTask(value: Params, rename: (id: string) => string): Params {
  const meta = value._meta
  const task = isObject(meta) ? meta[META_TASK] : undefined
  if (!isObject(meta) || !isObject(task) || typeof task.taskId !== "string") return value
  return { ...value, _meta: { ...meta, [META_TASK]: { ...task, taskId: rename(task.taskId) } } }
}

// ---

const withTaskId = (value: Params, names: Names): Params =>
  typeof value.taskId === "string" ? { ...value, taskId: names.task(value.taskId) } : value

function rewriteToolResult(result: Params, names: Names, era: Era): Params {
  if (createdTask(result, era) !== undefined)
    return isObject(result.task) && era === "legacy"
      ? { ...result, task: withTaskId(result.task, names) }
      : withTaskId(result, names)
  const changed = Array.isArray(result.content)
    ? { ...result, content: result.content.map((block: unknown) => rewriteBlock(block, names)) }
    : result
  return isObject(changed.result) ? { ...changed, result: rewriteToolResult(changed.result, names, era) } : changed
}

function rewriteBlock(block: unknown, names: Names): unknown {
  if (Array.isArray(block)) return block.map((inner: unknown) => rewriteBlock(inner, names))
  if (!isObject(block)) return block
  if (block.type === "resource_link") return withUri(block, names)
  if (block.type === "resource") return { ...block, resource: withUri(block.resource, names) }
  return block
}

/** Returns a skill with its URI and those of its files renamed; digests, sizes and frontmatter stay. extension: Skills. */
function rewriteSkill(skill: unknown, names: Names): unknown {
  return isObject(skill) ? mapped(withUri(skill, names), "resources", (file) => withUri(file, names)) : skill
}

/** Returns a value with each entry of a member changed; the value itself if the member is not an array. */
function mapped(value: Params, key: string, change: (entry: unknown) => unknown): Params {
  const entries = value[key]
  return Array.isArray(entries) ? { ...value, [key]: entries.map(change) } : value
}

function withUri<T>(value: T, names: Names): T {
  return isObject(value) && typeof value.uri === "string" ? { ...value, uri: names.uri(value.uri) } : value
}
