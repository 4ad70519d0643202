/** The shapes of nouns in REST and under `--json`, one for each noun (docs/json.md), and those that REST alone has. */
import * as z from "zod"
import { serverDetailsSchema } from "../tools/servers.ts"
import { instanceSchema } from "../tools/status.ts"

const strings = z.array(z.string())

export const serverSchema = serverDetailsSchema.strict()

export const serverInstanceSchema = instanceSchema
  .extend({ name: z.string(), type: z.string(), tags: strings })
  .strict()

export const toolSchema = z.strictObject({
  name: z.string().describe("The server's own name of the tool"),
  description: z.string().optional().describe("What clients see"),
  upstreamDescription: z.string().optional().describe("The server's own text, if svc replaces it"),
  overrides: z.looseObject({}).optional().describe("What `toolOverrides` replaces"),
  disabled: z.boolean().describe("Whether it is hidden from clients"),
  held: z.literal(true).optional().describe("Its definition has changed and waits for `svc mcp tools approve`"),
  gone: z.literal(true).optional().describe("The server has no such tool"),
  tokens: z.number().optional().describe("Its estimated share of a context"),
  server: z.string().optional().describe("Only from `svc inspect`, `svc search` and REST, as are the members below"),
  qualifiedName: z.string().optional().describe("Its name in the aggregate, `<server>_svc_<tool>`"),
  definition: z.looseObject({}).optional().describe("The whole definition as clients see it, under its own name"),
  characters: z.number().optional().describe("Characters of its definition; only from REST"),
  score: z.number().optional().describe("How well it matches the search; only from a search"),
  matched: strings.optional().describe("Where the search found its words"),
})

export const presetSchema = z.strictObject({
  name: z.string(),
  filter: z.string(),
  description: z.string().optional(),
  servers: strings.describe("The servers that it selects now"),
})

export const lineSchema = z.strictObject({
  time: z.string().describe("ISO 8601"),
  level: z.enum(["debug", "info", "warn", "error"]),
  message: z.string(),
  server: z.string().optional().describe("The server that the line is about"),
})

export const issueSchema = z.strictObject({
  code: z.string(),
  severity: z.enum(["error", "warning"]),
  message: z.string(),
  file: z.string().optional(),
  line: z.number().optional(),
  column: z.number().optional(),
  path: z
    .array(z.union([z.string(), z.number()]))
    .optional()
    .describe("The place in the document"),
  server: z.string().optional(),
})

export const approvalSchema = z.strictObject({
  server: z.string(),
  instance: z.string().optional().describe("Of a template: its instance"),
  tool: z.string().describe("The server's own name of the tool"),
  held: z.boolean().describe("Whether it is kept from clients until it is approved"),
  suspicious: z.boolean().describe("Whether a text of it contains invisible characters"),
  hash: z.string().describe("Of the definition now; an approval that names it approves nothing else"),
  definition: z.looseObject({}).describe("What a model reads of it now"),
  before: z
    .looseObject({})
    .optional()
    .describe(
      "What a model read of it before; absent if svc has kept only its hash: by an older version, or because it is long",
    ),
  diff: z
    .array(z.strictObject({ kind: z.enum(["same", "removed", "added"]), text: z.string() }))
    .describe("The lines of both definitions, invisible characters as escapes; without `before`, all are added ones"),
})

export const effectiveSchema = z.strictObject({
  key: z.string().describe("A dotted key of mcp.json"),
  value: z.unknown().describe("Secrets are hidden"),
  from: strings.describe("All of its sources"),
  ignored: z.literal(true).optional().describe("It has no effect on this kind of server"),
})

export const problemSchema = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.number().int(),
  detail: z.string().describe("What was wrong, and what to do next"),
  code: z.string().describe("not_found, conflict, unavailable …"),
  data: z.looseObject({}).optional(),
})
