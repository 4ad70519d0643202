/** The shapes that commands print under `--json`, one for each noun: the source of docs/json.md and of its test. */
import * as z from "zod"
import { serverDetailsSchema } from "../src/tools/servers.ts"
import { instanceSchema } from "../src/tools/status.ts"

const strings = z.array(z.string())

export const JSON_SHAPES = {
  server: serverDetailsSchema.strict(),
  instance: instanceSchema.extend({ name: z.string(), type: z.string(), tags: strings }).strict(),
  tool: z.strictObject({
    name: z.string().describe("The server's own name of the tool"),
    description: z.string().optional().describe("What clients see"),
    upstreamDescription: z.string().optional().describe("The server's own text, if svc replaces it"),
    overrides: z.looseObject({}).optional().describe("What `toolOverrides` replaces"),
    disabled: z.boolean().describe("Whether it is hidden from clients"),
    held: z.literal(true).optional().describe("Its definition has changed and waits for `svc mcp tools approve`"),
    gone: z.literal(true).optional().describe("The server has no such tool"),
    tokens: z.number().optional().describe("Its estimated share of a context"),
    server: z.string().optional().describe("Only from `svc inspect` and `svc search`, as are the members below"),
    qualifiedName: z.string().optional().describe("Its name in the aggregate, `<server>_svc_<tool>`"),
    definition: z.looseObject({}).optional().describe("The whole definition as clients see it, under its own name"),
    score: z.number().optional().describe("How well it matches the search; only from `svc search`"),
    matched: strings.optional().describe("Where the search found its words"),
  }),
  token: z.strictObject({
    id: z.string(),
    name: z.string(),
    tags: strings.optional().describe("Tags of the servers that it gives access to; absent for all"),
    created: z.string().describe("ISO 8601"),
    expires: z.string().optional().describe("ISO 8601; absent if it does not expire"),
    token: z.string().optional().describe("The token itself; only from `svc auth token create`"),
    warnings: strings
      .optional()
      .describe("What may be a mistake, such as a tag that no server has; only from `create`"),
  }),
  preset: z.strictObject({
    name: z.string(),
    filter: z.string(),
    description: z.string().optional(),
    servers: strings.describe("The servers that it selects now"),
  }),
  line: z.strictObject({
    time: z.string().describe("ISO 8601"),
    level: z.enum(["debug", "info", "warn", "error"]),
    message: z.string(),
    server: z.string().optional().describe("The server that the line is about"),
  }),
  finding: z.strictObject({
    check: z.string(),
    severity: z.enum(["warning", "error"]),
    subject: z.string().optional().describe("The server, file or client that it is about"),
    what: z.string(),
    why: z.string(),
    fix: z.string().describe("The command or the action that fixes it"),
    fixable: z.boolean().describe("Whether `svc doctor --fix` fixes it"),
    fixed: z.literal(true).optional().describe("`svc doctor --fix` has just fixed it"),
  }),
  error: z.strictObject({
    error: z.strictObject({
      code: z.string().describe("usage, not_found, conflict, unavailable, invalid_configuration, server_failed …"),
      message: z.string(),
    }),
  }),
} as const
