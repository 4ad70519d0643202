/**
 * `.svcrc`, the project context file: the context that a project declares, and the servers that it selects.
 * spec: Templates, project context file.
 */
import { dirname } from "node:path"
import * as z from "zod"
import { issueAt, type Path, parseDocument, unknownKeys } from "../config/document.ts"
import { TOOL_LISTINGS } from "../config/tool-listing.ts"
import { ConfigError, type Issue } from "../lib/errors.ts"
import { lazy } from "../lib/lazy.ts"
import { schemaProblem } from "../lib/schema-problem.ts"
import { boundedText, projectContextSchema } from "./context-schema.ts"

export const SVCRC = ".svcrc"

const schema = lazy(() =>
  z.object({
    preset: boundedText().min(1).optional(),
    tags: z.array(boundedText().min(1)).min(1).optional(),
    tools: z.enum(TOOL_LISTINGS).optional(),
    context: projectContextSchema().optional(),
  }),
)

type Svcrc = z.infer<ReturnType<typeof schema>>

export type ParsedSvcrc = {
  readonly svcrc: Svcrc
  readonly issues: readonly Issue[]
  /** Where the file names the preset, as `FILE:LINE:COLUMN`. */
  readonly presetAt?: string
}

/** Parses a `.svcrc`. Unknown keys are warnings; other mistakes throw a ConfigError with positions. */
export function parseSvcrc(text: string, file: string): ParsedSvcrc {
  const document = parseDocument(text, file)
  const { value } = document
  const parsed = schema().safeParse(value, { error: schemaProblem })
  if (!parsed.success)
    throw new ConfigError(
      parsed.error.issues.map((problem) => {
        const path = problem.path as Path
        return issueAt(document, "error", "type", path, `${path.join(".")}: ${problem.message}`)
      }),
    )
  const issues = [
    ...document.issues,
    ...unknownKeys(document, value, ["$schema", ...Object.keys(schema().shape)], []),
    ...unknownKeys(document, value.context, Object.keys(projectContextSchema().shape), ["context"]),
  ]
  const { line, column } = document.locate(["preset"])
  return {
    svcrc: parsed.data,
    issues,
    ...(parsed.data.preset === undefined ? {} : { presetAt: `${file}:${line}:${column}` }),
  }
}

/**
 * Returns the folders to search for a `.svcrc`, nearest first: from `directory` up to the repository's root or the home
 * directory, whichever comes first. Outside of both, only `directory` itself: its parents may belong to other users.
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
