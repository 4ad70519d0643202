/** Generates the OpenAPI 3.1 document of REST from the endpoints. */
import * as z from "zod"
import { type RequestFault, STATUS_PHRASES, statusOfFault } from "../../lib/errors.ts"
import { isObject, type Params } from "../../wire/message.ts"
import type { Endpoint } from "./endpoint.ts"
import { problemSchema } from "./shapes.ts"

/** Returns the OpenAPI document of endpoints. */
export function openApiOf(endpoints: readonly Endpoint[], version: string): Params {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const endpoint of endpoints) {
    const path = paths[endpoint.path] ?? {}
    paths[endpoint.path] = { ...path, [endpoint.method.toLowerCase()]: operationOf(endpoint) }
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "svc",
      version,
      description: "Manages a running svc. Lists come in pages; errors are problem details (RFC 9457).",
    },
    servers: [{ url: "/api/v1" }],
    security: [{ bearer: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "A token from `svc admin --token`, or, with --auth, a client token with full access (svc:admin)",
        },
        cookie: {
          type: "apiKey",
          in: "cookie",
          name: "svc_admin_<port>",
          description: "Set by the link of `svc admin`",
        },
      },
      schemas: { Problem: schemaOf(problemSchema, "output") },
    },
  }
}

// ---

/** The faults of every endpoint. */
const COMMON: readonly RequestFault[] = ["unauthorized", "forbidden", "too_many"]

function operationOf(endpoint: Endpoint): Params {
  const { method, path, summary, description, query, body, answer, created, tagged, conditional, faults } = endpoint
  const malformed: readonly RequestFault[] = query === undefined && body === undefined ? [] : ["invalid_params"]
  const large: readonly RequestFault[] = body === undefined ? [] : ["too_large", "unsupported_media_type"]
  const problems = [...new Set([...COMMON, ...malformed, ...large, ...faults].map(statusOfFault)), ...FAILURES]
  return {
    operationId: `${method.toLowerCase()}${path.replace(/[^a-z]+([a-zA-Z])?/g, (_all, next = "") => next.toUpperCase())}`,
    summary,
    ...(description === undefined ? {} : { description }),
    parameters: [...pathParameters(path), ...queryParameters(query), ...(conditional === true ? [IF_MATCH] : [])],
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: schemaOf(body, "input") } } } }),
    responses: {
      [created === true ? "201" : "200"]: {
        description: "Success",
        ...(tagged === true ? { headers: { ETag: { schema: { type: "string" } } } } : {}),
        content:
          answer === "stream"
            ? { "text/event-stream": { schema: { type: "string" } } }
            : { "application/json": { schema: schemaOf(answer, "output") } },
      },
      ...Object.fromEntries(problems.map((status) => [String(status), problem(STATUS_PHRASES[status] ?? "Error")])),
    },
  }
}

/** Statuses of failures that are not the caller's: of svc, of a server, or of an unavailable part. */
const FAILURES = [500, 502, 503]

const IF_MATCH = { name: "If-Match", in: "header", required: true, schema: { type: "string" } }

const problem = (description: string): Params => ({
  description,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
})

const pathParameters = (path: string): readonly Params[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: "path", required: true, schema: { type: "string" } }))

function queryParameters(query: z.ZodObject | undefined): readonly Params[] {
  if (query === undefined) return []
  const { properties, required = [] } = schemaOf(query, "input")
  return Object.entries(isObject(properties) ? properties : {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: Array.isArray(required) && required.includes(name) && isObject(schema) && schema.default === undefined,
    schema,
  }))
}

function schemaOf(schema: z.ZodType, io: "input" | "output"): Params {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { target: "draft-2020-12", io, unrepresentable: "any" })
  return rest
}
