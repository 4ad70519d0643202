/**
 * `.svcrc`, the project context file: what a project says of itself and which servers it wants.
 * spec: Templates, project context file.
 */
import { dirname } from "node:path"
import * as z from "zod"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { nearest } from "../lib/nearest.ts"
import { isObject } from "../wire/message.ts"
import { customSchema, text } from "./context.ts"
import { type Path, parseDocument } from "./document.ts"

export const SVCRC = ".svcrc"

const said = z.object({
  projectId: text.optional(),
  environment: text.optional(),
  team: text.optional(),
  custom: customSchema.optional(),
})

const schema = z.object({
  preset: text.min(1).optional(),
  tags: z.array(text.min(1)).min(1).optional(),
  context: said.optional(),
})

export type Svcrc = z.infer<typeof schema>

/** The text of a `.svcrc`. Unknown keys warn; what is wrong otherwise throws a ConfigError that says where. */
export function parseSvcrc(text: string, file: string): { readonly svcrc: Svcrc; readonly issues: readonly Issue[] } {
  const document = parseDocument(text, file)
  const note = (severity: Issue["severity"], code: string, path: Path, message: string): Issue => ({
    code,
    severity,
    message,
    path,
    file,
    ...document.locate(path),
  })
  const { value } = document
  const parsed = schema.safeParse(value)
  if (!parsed.success)
    throw new ConfigError(
      parsed.error.issues.map((problem) => {
        const path = problem.path as Path
        return note("error", "type", path, `${path.join(".")}: ${problem.message}`)
      }),
    )
  const unknown = (raw: unknown, known: readonly string[], path: Path): Issue[] =>
    (isObject(raw) ? Object.keys(raw) : [])
      .filter((key) => !known.includes(key))
      .map((key) => {
        const near = nearest(key, known)
        const meant = near === undefined ? "." : `; did you mean "${near}"?`
        return note("warning", "unknown_key", [...path, key], `unknown key "${key}"${meant} It is ignored`)
      })
  const issues = [
    ...document.issues,
    ...unknown(value, ["$schema", ...Object.keys(schema.shape)], []),
    ...unknown(value.context, Object.keys(said.shape), ["context"]),
  ]
  return { svcrc: parsed.data, issues }
}

/**
 * The folders in which a `.svcrc` counts, nearest first: from `directory` upward to the repository's root or to home,
 * whichever comes first. Below neither it is that folder alone: what lies further up may be anybody's.
 */
export function svcrcFolders(directory: string, root: string | undefined, home: string): readonly string[] {
  const folders = [directory]
  for (let folder = directory; folder !== root && folder !== home; ) {
    const parent = dirname(folder)
    if (parent === folder) return [directory]
    folders.push(parent)
    folder = parent
  }
  return folders
}
