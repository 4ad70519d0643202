/** The shapes that commands print under `--json`, one for each noun: the source of docs/json.md and of its test. */
import * as z from "zod"
import { lineSchema, presetSchema, serverInstanceSchema, serverSchema, toolSchema } from "../src/rest/shapes.ts"

const strings = z.array(z.string())

export const JSON_SHAPES = {
  server: serverSchema,
  instance: serverInstanceSchema,
  tool: toolSchema,
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
  preset: presetSchema,
  line: lineSchema,
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
  running: z.strictObject({
    pid: z.int(),
    directory: z.string().describe("The configuration directory"),
    file: z.string().describe("The path of mcp.json"),
    startedAt: z.string().describe("ISO 8601"),
    startedBy: z.enum(["terminal", "background", "proxy", "service", "program", "demo"]),
    version: z.string().optional().describe("Absent if the process does not answer, as are the next members"),
    address: z.string().optional().describe("The address for clients, or `unix:` and the path of the socket"),
    servers: z.strictObject({ total: z.int(), ready: z.int() }).optional(),
  }),
  started: z.strictObject({
    pid: z.int(),
    address: z.string().describe("The address for clients, or `unix:` and the path of the socket"),
    log: z.string().describe("The path of the log"),
  }),
  service: z.strictObject({
    manager: z.string().describe("systemd, launchd or Task Scheduler"),
    file: z.string().describe("The definition of the service"),
    pid: z.int().optional().describe("The process that serves the configuration; absent if none does"),
  }),
  removal: z.strictObject({
    changed: z.boolean().describe("Whether svc is removed; false with `--dry-run`"),
    removed: strings.describe("The paths that are removed, or with `--dry-run` would be"),
  }),
  version: z.strictObject({ version: z.string(), commit: z.string() }),
  error: z.strictObject({
    error: z.strictObject({
      code: z.string().describe("usage, not_found, conflict, unavailable, invalid_configuration, server_failed …"),
      message: z.string(),
    }),
  }),
} as const
