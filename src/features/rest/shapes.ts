/** The shapes of nouns in REST and in `--json` output, one for each noun (docs/json.md), and the shapes that only REST has. */
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
  description: z.string().optional().describe("The description that clients see"),
  upstreamDescription: z.string().optional().describe("The server's own description, if svc replaces it"),
  overrides: z.looseObject({}).optional().describe("The values that `toolOverrides` sets"),
  disabled: z.boolean().describe("Whether the tool is hidden from clients"),
  held: z
    .literal(true)
    .optional()
    .describe("The definition has changed and must be approved with `svc mcp tools approve`"),
  gone: z.literal(true).optional().describe("The server has no such tool"),
  tokens: z.number().optional().describe("Estimated tokens that the tool takes in a context"),
  server: z
    .string()
    .optional()
    .describe("Name of the server. This member and those below are only from `svc inspect`, `svc search` and REST"),
  qualifiedName: z.string().optional().describe("The tool's name in the aggregate, `<server>_svc_<tool>`"),
  definition: z
    .looseObject({})
    .optional()
    .describe("The whole definition as clients see it, but with the server's own name of the tool"),
  characters: z.number().optional().describe("Length of the definition in characters; only from REST"),
  score: z.number().optional().describe("How well the tool matches the search; only from a search"),
  matched: strings.optional().describe("The parts of the tool in which the search found its words"),
})

export const presetSchema = z.strictObject({
  name: z.string(),
  filter: z.string(),
  description: z.string().optional(),
  matches: strings.optional().describe("Servers by name or glob, as `servers` in presets.json states them"),
  allow: strings.optional(),
  deny: strings.optional(),
  readOnly: z.boolean().optional(),
  new: z.enum(["show", "hold"]).optional().describe("`hold`: only tools in `approved` are included"),
  approved: strings.optional().describe("Tools, as `server/tool`"),
  limits: z.record(z.string(), z.number()).optional().describe("Calls per minute, by globs over `server/tool`"),
  names: z.record(z.string(), z.string()).optional(),
  prefix: z.string().optional(),
  separator: z.string().optional(),
  tools: z.enum(["all", "search"]).optional(),
  alwaysVisible: strings.optional(),
  resultBudget: z.number().optional().describe("Characters"),
  servers: strings.describe("The servers that the preset currently selects"),
  tokens: z
    .number()
    .optional()
    .describe("What its tools and instructions take; only from `show` of a running svc, as the next two"),
  collisions: strings
    .optional()
    .describe("Names that two entries would share, which therefore keep their qualified names"),
  entries: z
    .array(
      z.strictObject({
        server: z.string(),
        included: z.array(z.strictObject({ entry: z.string(), name: z.string() })),
        left: z.array(z.strictObject({ entry: z.string(), rules: strings })),
      }),
    )
    .optional()
    .describe("What it includes of each server, under its name for clients, and what it leaves out, by which rules"),
})

export const lineSchema = z.strictObject({
  time: z.string().describe("ISO 8601"),
  level: z.enum(["debug", "info", "warn", "error"]),
  message: z.string(),
  server: z.string().optional().describe("The server to which the line belongs"),
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
  instance: z.string().optional().describe("The instance, if the server is a template"),
  tool: z.string().describe("The server's own name of the tool"),
  held: z.boolean().describe("Whether svc hides the tool from clients until the change is approved"),
  suspicious: z.boolean().describe("Whether a text in the definition contains invisible characters"),
  hash: z.string().describe("Hash of the current definition; an approval with this hash approves no other definition"),
  definition: z.looseObject({}).describe("The current definition, as models read it"),
  before: z
    .looseObject({})
    .optional()
    .describe(
      "The previous definition, as models read it; absent if svc has stored only a hash, because the definition is long or an older version of svc pinned it",
    ),
  diff: z
    .array(z.strictObject({ kind: z.enum(["same", "removed", "added"]), text: z.string() }))
    .describe(
      "The lines of both definitions, with invisible characters as escapes; without `before`, all lines are `added`",
    ),
})

export const effectiveSchema = z.strictObject({
  key: z.string().describe("A dotted key of mcp.json"),
  value: z.unknown().describe("The value; secrets are hidden"),
  from: strings.describe("All sources of the value"),
  ignored: z.literal(true).optional().describe("The value has no effect on this kind of server"),
})

export const problemSchema = z.looseObject({
  type: z.string(),
  title: z.string(),
  status: z.number().int(),
  detail: z.string().describe("The problem, and what to do next"),
  code: z.string().describe("not_found, conflict, unavailable …"),
  data: z.looseObject({}).optional(),
})
