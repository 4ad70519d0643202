/** The schemas of the messages of `svc proxy` and of svc's own commands: see proxy-server.ts. */
import * as z from "zod"
import { TOOL_LISTINGS } from "../config/tool-listing.ts"
import { lazy } from "../lib/lazy.ts"
import { boundedText, projectContextSchema, userSchema } from "../template/context-schema.ts"

const surroundings = lazy(() =>
  z.object({
    project: z.object({
      directory: boundedText(),
      root: boundedText(),
      branch: boundedText().optional(),
      user: userSchema(),
      said: projectContextSchema(),
    }),
    queries: z
      .array(
        z.object({
          tags: z.array(boundedText()).optional(),
          filter: boundedText().optional(),
          preset: boundedText().optional(),
          presetAt: z.string().optional(),
          tools: z.enum(TOOL_LISTINGS).optional(),
        }),
      )
      .max(10),
  }),
)
export const askSchema = lazy(() =>
  z.object({
    svc: z.literal("ask"),
    id: z.number(),
    question: z.string(),
    params: z.record(z.string(), z.unknown()),
  }),
)
export type Ask = z.infer<ReturnType<typeof askSchema>>
export const proxyMessageSchema = lazy(() =>
  z.object({ svc: z.enum(["hello", "moved"]), surroundings: surroundings() }),
)
