/** Shows the result of a tool at the shell: texts as they are, and other contents by type and size. */
import { extname } from "node:path"
import { printableLines } from "../lib/table.ts"
import { asText, isObject, type Params } from "../wire/message.ts"

/** A file in a result. */
export type ResultFile = { readonly type: string; readonly bytes: Uint8Array }

/**
 * Returns the texts of a result: unchanged for a file or a program, escaped for a terminal. A result without content is shown
 * as its structured content.
 */
export function resultText(result: Params, terminal: boolean): string {
  const { structuredContent } = result
  const blocks = contentOf(result)
  const text =
    blocks.length === 0 && structuredContent !== undefined
      ? JSON.stringify(structuredContent, null, 2)
      : blocks.map(blockText).join("\n")
  const ended = text === "" || text.endsWith("\n") ? text : `${text}\n`
  return terminal ? printableLines(ended) : ended
}

/** Returns the images, sounds and other binary contents of a result. */
export const resultFiles = (result: Params): readonly ResultFile[] =>
  contentOf(result).flatMap((block) => fileOf(block) ?? [])

/** Returns the path of the file at index `at` of a result: from the second one on with a number before the extension. */
export function numberedPath(path: string, at: number): string {
  if (at === 0) return path
  const extension = extname(path)
  return `${path.slice(0, path.length - extension.length)}-${at + 1}${extension}`
}

// ---

const contentOf = ({ content }: Params): readonly Params[] => (Array.isArray(content) ? content.filter(isObject) : [])

function fileOf(block: Params): ResultFile | undefined {
  const { type, mimeType } = isObject(block.resource) ? block.resource : block
  const data = isObject(block.resource) ? block.resource.blob : block.data
  if (typeof data !== "string") return undefined
  return { type: asText(mimeType ?? type ?? "binary"), bytes: Buffer.from(data, "base64") }
}

function blockText(block: Params): string {
  const { resource } = block
  if (typeof block.text === "string") return block.text
  if (isObject(resource) && typeof resource.text === "string") return resource.text
  if (block.type === "resource_link")
    return [block.uri, block.title ?? block.name].filter(Boolean).map(asText).join("  ")
  const file = fileOf(block)
  if (file === undefined) return JSON.stringify(block)
  return `[${file.type}, ${file.bytes.length} bytes; --output FILE saves it]`
}
