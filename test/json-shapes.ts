/** The shapes that commands print under `--json`, one for each noun: the source of docs/json.md and of its test. */
import * as z from "zod"
import {
  lineSchema,
  presetSchema,
  serverInstanceSchema,
  serverSchema,
  toolSchema,
} from "../src/features/rest/shapes.ts"

const strings = z.array(z.string())

export const JSON_SHAPES = {
  server: serverSchema,
  instance: serverInstanceSchema,
  tool: toolSchema,
  token: z.strictObject({
    id: z.string(),
    name: z.string(),
    tags: strings
      .optional()
      .describe("Tags of the servers that the token gives access to; absent if it gives access to all"),
    metricsOnly: z.literal(true).optional().describe("The token gives access to `/metrics` and nothing else"),
    created: z.string().describe("ISO 8601"),
    expires: z.string().optional().describe("ISO 8601; absent if the token does not expire"),
    token: z.string().optional().describe("The token itself; only from `svc auth token create`"),
    warnings: strings.optional().describe("Possible mistakes, such as a tag that no server has; only from `create`"),
  }),
  preset: presetSchema,
  line: lineSchema,
  finding: z.strictObject({
    check: z.string(),
    severity: z.enum(["warning", "error"]),
    subject: z.string().optional().describe("The server, file or client that the finding is about"),
    what: z.string(),
    why: z.string(),
    fix: z.string().describe("The command or action that fixes the problem"),
    fixable: z.boolean().describe("Whether `svc doctor --fix` can fix the problem"),
    fixed: z.literal(true).optional().describe("`svc doctor --fix` has just fixed the problem"),
  }),
  running: z.strictObject({
    pid: z.int(),
    directory: z.string().describe("The configuration directory"),
    file: z.string().describe("The path of mcp.json"),
    startedAt: z.string().describe("ISO 8601"),
    startedBy: z.enum(["terminal", "background", "proxy", "service", "program", "demo"]),
    version: z.string().optional().describe("Absent if the process does not answer, as are the members below"),
    address: z.string().optional().describe("The address for clients, or `unix:` followed by the path of the socket"),
    servers: z.strictObject({ total: z.int(), ready: z.int() }).optional(),
    memory: z.int().optional().describe("Bytes of resident memory of svc and its servers, where the system tells"),
    cpu: z.int().optional().describe("Milliseconds of processor time of svc and its servers, where the system tells"),
  }),
  started: z.strictObject({
    pid: z.int(),
    address: z.string().describe("The address for clients, or `unix:` followed by the path of the socket"),
    log: z.string().describe("The path of the log"),
  }),
  service: z.strictObject({
    manager: z.string().describe("systemd, launchd or Task Scheduler"),
    file: z.string().describe("Path of the service definition"),
    pid: z.int().optional().describe("The process that serves the configuration; absent if it is not running"),
  }),
  removal: z.strictObject({
    changed: z.boolean().describe("Whether svc was removed; false with `--dry-run`"),
    removed: strings.describe("The paths that were removed, or that would be removed with `--dry-run`"),
    restored: strings.describe("The files of clients that are as they were before `svc connect`"),
    notRestored: z
      .array(z.strictObject({ file: z.string(), problem: z.string(), backup: z.string().optional() }))
      .describe("The files of clients that stay as they are, each with its backup"),
    notes: strings
      .optional()
      .describe("What else to say of the restored files, such as where a copy with lost comments is"),
    movedTo: z.string().optional().describe("The folder to which `--purge` moves what exists only in the directory"),
  }),
  version: z.strictObject({ version: z.string(), commit: z.string() }),
  error: z.strictObject({
    error: z.strictObject({
      code: z.string().describe("usage, not_found, conflict, unavailable, invalid_configuration, server_failed …"),
      message: z.string(),
    }),
  }),
} as const
