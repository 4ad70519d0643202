/** The schema of a template's context, which is foreign data: its size and depth are bounded here. */
import * as z from "zod"
import { lazy } from "../lib/lazy.ts"

/** The schema of a text in a context: 4096 characters at most. */
export const boundedText = lazy(() => z.string().max(4096))

/** The schema of `project.custom`: any JSON, bounded in size and depth. */
export const customSchema = lazy(() =>
  z
    .record(z.string().max(128), z.unknown())
    .refine(
      (value) => isShallow(value, MAX_DEPTH) && JSON.stringify(value).length <= MAX_CUSTOM,
      "is too large (64 KiB) or nested too deep (8 levels)",
    ),
)

/** The schema of the user of a client. */
export const userSchema = lazy(() =>
  z.object({
    username: boundedText(),
    name: boundedText().optional(),
    email: boundedText().optional(),
    home: boundedText(),
  }),
)

/** The schema of the context that a project declares in `.svcrc`. */
export const projectContextSchema = lazy(() =>
  z.object({
    projectId: boundedText().optional(),
    environment: boundedText().optional(),
    team: boundedText().optional(),
    custom: customSchema().optional(),
  }),
)

export const contextSchema = lazy(() =>
  z.object({
    project: z.object({
      path: boundedText(),
      name: boundedText(),
      environment: boundedText().optional(),
      projectId: boundedText().optional(),
      team: boundedText().optional(),
      git: z.object({ branch: boundedText().optional() }),
      custom: customSchema(),
    }),
    user: userSchema(),
    transport: z.object({
      type: z.enum(["http", "sse", "stdio"]),
      client: z.object({ name: boundedText().optional(), version: boundedText().optional() }),
    }),
    context: z.object({
      path: boundedText(),
      timestamp: boundedText(),
      sessionId: boundedText(),
      version: boundedText(),
    }),
  }),
)

export type TemplateContext = z.infer<ReturnType<typeof contextSchema>>

// ---

const MAX_DEPTH = 8
const MAX_CUSTOM = 64 * 1024

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1))
}
