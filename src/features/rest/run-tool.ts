/** Runs svc's own tools for REST, and turns their failures into errors with the statuses of REST. */
import { publicMessage, RequestError, UnavailableError } from "../../lib/errors.ts"
import { isObject, type Params } from "../../wire/message.ts"

import { ToolError, type ToolFault } from "../tools/tool.ts"
import type { EndpointCall } from "./endpoint.ts"

/** Returns the structured answer of a tool. Throws a RequestError or an UnavailableError for its failure. */
export async function runOwnTool(
  { ports, request }: Pick<EndpointCall, "ports" | "request">,
  tool: string,
  args: Params,
  agreed?: string,
): Promise<Params> {
  const { structuredContent } = await ports.runTool(tool, args, agreed, request.signal)
  const { error, ...data } = structuredContent
  if (!isObject(error)) return structuredContent
  throw errorOf(error.code as ToolFault, String(error.message), data)
}

/** Returns the REST error for a failure of svc's own tools, and any other error unchanged. */
export const restError = (error: unknown): unknown =>
  error instanceof ToolError ? errorOf(error.fault, error.message, error.data) : error

// ---

function errorOf(fault: ToolFault, message: string, data: Params): Error {
  switch (fault) {
    case "not_found":
      return new RequestError("not_found", message, data)
    case "invalid_argument":
      return new RequestError("invalid_params", message, data)
    case "conflict":
    case "confirmation_required":
    case "declined":
    case "rolled_back":
      return new RequestError("conflict", message, { ...data, reason: fault })
    case "registry_unavailable":
      return new UnavailableError(message)
    case "internal":
      // This includes what the tool could not do, such as write a file. Only the message of a bug is generic.
      return message === publicMessage(undefined) ? new Error(message) : new UnavailableError(message)
  }
}
