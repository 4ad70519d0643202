/**
 * The context of a template: the project, the user, the transport and the request that it is rendered for.
 * spec: Templates, context namespaces; choice: the fourth namespace is `context`.
 *
 * A context is foreign data, even from a trusted client: context-schema.ts bounds its size, and render.ts makes sure that its
 * text is read only as text.
 */
import { basename } from "node:path"
import { digest } from "../lib/digest.ts"
import type { TemplateContext } from "./context-schema.ts"

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
  /** The `context` of `.svcrc`. The name is that of the field which `svc proxy` sends. */
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
