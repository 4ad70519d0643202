/**
 * The context of a template: the project, the user, the transport and the request that it is rendered for.
 * spec: Templates, context namespaces; choice: the fourth namespace is `context`.
 *
 * A context is foreign data, even from a trusted client: its size is bounded here, and render.ts keeps its text from being
 * read as anything but text.
 */
import { basename } from "node:path"
import * as z from "zod"
import { digest } from "../lib/digest.ts"
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
    user: z.object({
      username: boundedText(),
      name: boundedText().optional(),
      email: boundedText().optional(),
      home: boundedText(),
    }),
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

/** Every name that a context can have; any name below `project.custom` is valid. */
export const CONTEXT_NAMES: readonly string[] = [
  "project.path",
  "project.name",
  "project.environment",
  "project.projectId",
  "project.team",
  "project.git.branch",
  "project.custom",
  "user.username",
  "user.name",
  "user.email",
  "user.home",
  "transport.type",
  "transport.client.name",
  "transport.client.version",
  "context.path",
  "context.timestamp",
  "context.sessionId",
  "context.version",
]

/** The data for a context: facts about the client's machine and directory, and the client's own information. */
export type ContextFacts = {
  /** The working directory. */
  readonly directory: string
  /** The repository's root, or the working directory outside of one. */
  readonly root: string
  readonly branch: string | undefined
  readonly user: TemplateContext["user"]
  /** The `context` of `.svcrc`. Named as `svc proxy` sends it. */
  readonly said: {
    readonly projectId?: string | undefined
    readonly environment?: string | undefined
    readonly team?: string | undefined
    readonly custom?: Readonly<Record<string, unknown>> | undefined
  }
  readonly transport: TemplateContext["transport"]
  readonly sessionId: string
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The version of svc. */
  readonly version: string
}

/** Builds a context from facts. */
export function buildContext({
  directory,
  root,
  branch,
  user,
  said,
  transport,
  sessionId,
  now,
  version,
}: ContextFacts): TemplateContext {
  const { custom = {}, ...rest } = said
  return {
    project: { path: root, name: basename(root), ...rest, git: { branch }, custom },
    user,
    transport,
    context: { path: directory, timestamp: new Date(now).toISOString(), sessionId, version },
  }
}

/** Returns the key of a context, which does not depend on its timestamp. */
export function contextFingerprint({ context: { timestamp: _, ...request }, ...rest }: TemplateContext): string {
  return digest(JSON.stringify({ ...rest, request }))
}

// ---

const MAX_DEPTH = 8
const MAX_CUSTOM = 64 * 1024

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true
  return depth > 0 && Object.values(value).every((inner) => isShallow(inner, depth - 1))
}
