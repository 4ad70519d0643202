/**
 * `.svcrc`, the project context file: what a project says of itself and which servers it wants.
 * spec: Templates, project context file.
 */
import { dirname } from "node:path"
import * as z from "zod"
import { issueAt, type Path, parseDocument, unknownKeys } from "../config/document.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { boundedText, customSchema } from "./context.ts"

export const SVCRC = ".svcrc"

const said = z.object({
  projectId: boundedText.optional(),
  environment: boundedText.optional(),
  team: boundedText.optional(),
  custom: customSchema.optional(),
})

const schema = z.object({
  preset: boundedText.min(1).optional(),
  tags: z.array(boundedText.min(1)).min(1).optional(),
  context: said.optional(),
})

export type Svcrc = z.infer<typeof schema>

/** The text of a `.svcrc`. Unknown keys warn; what is wrong otherwise throws a ConfigError that says where. */
export function parseSvcrc(text: string, file: string): { readonly svcrc: Svcrc; readonly issues: readonly Issue[] } {
  const document = parseDocument(text, file)
  const { value } = document
  const parsed = schema.safeParse(value)
  if (!parsed.success)
    throw new ConfigError(
      parsed.error.issues.map((problem) => {
        const path = problem.path as Path
        return issueAt(document, "error", "type", path, `${path.join(".")}: ${problem.message}`)
      }),
    )
  const issues = [
    ...document.issues,
    ...unknownKeys(document, value, ["$schema", ...Object.keys(schema.shape)], []),
    ...unknownKeys(document, value.context, Object.keys(said.shape), ["context"]),
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
