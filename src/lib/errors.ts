/**
 * The error classes and the table of their codes. Each class stands for one party at fault: the operator's document, a
 * backend, the caller, or svc's surroundings. One table gives each error its exit code, HTTP status and JSON-RPC code.
 *
 * `cause` is kept for the log and never shown to a client.
 */

/** One problem in the operator's documents, as data. `line` and `column` count from 1. */
export type Issue = {
  readonly code: string
  readonly severity: "error" | "warning"
  /** One sentence: what is wrong and what to do. Never contains a value, because a value may be secret. */
  readonly message: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
  /** The place in the document, for example `["mcpServers", "web", "timeout"]`. */
  readonly path?: readonly (string | number)[]
  /** The server that the problem concerns. */
  readonly server?: string
}

/** The operator's document is invalid. The last valid configuration stays in effect. */
export class ConfigError extends Error {
  override readonly name = "ConfigError"
  constructor(
    readonly issues: readonly Issue[],
    options?: ErrorOptions,
  ) {
    super(issues.map(formatIssue).join("\n"), options)
  }
}

/** A backend failed. The message starts with the name of the server. */
export class BackendError extends Error {
  override readonly name = "BackendError"
  constructor(
    readonly server: string,
    message: string,
    options?: ErrorOptions,
  ) {
    super(`${server}${PREDICATE.test(message) ? " " : ": "}${message}`, options)
  }
}

/** Matches a message that forms a sentence with the server's name before it: "web is down". */
const PREDICATE = /^(?:is|needs|has|refused|requires) /

/** The kinds of errors that a caller makes. */
export type RequestFault =
  | "usage"
  | "parse"
  | "invalid_request"
  | "unknown_method"
  | "invalid_params"
  | "not_found"
  | "conflict"
  | "too_large"
  | "too_many"
  | "unauthorized"
  | "forbidden"
  | "wrong_method"
  | "not_acceptable"
  | "unsupported_media_type"
  | "precondition_failed"
  | "precondition_required"

/** The caller's request is invalid or cannot be served. The message is shown to the caller. */
export class RequestError extends Error {
  override readonly name = "RequestError"
  constructor(
    readonly fault: RequestFault,
    message: string,
    /** Travels as `error.data` of a JSON-RPC error. */
    readonly data?: unknown,
    options?: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Something outside of svc is not available: a port in use, no running instance, an issuer that cannot be reached. */
export class UnavailableError extends Error {
  override readonly name = "UnavailableError"
  /** Seconds after which a client may try again, if that helps. */
  readonly retryAfter: number | undefined

  constructor(message: string, { retryAfter, ...options }: ErrorOptions & { readonly retryAfter?: number } = {}) {
    super(message, options)
    this.retryAfter = retryAfter
  }
}

/**
 * Another replica that worked on a request has ended, or does not answer. Whether the request was executed is unknown, so only
 * its client may repeat it: a proxy may repeat a request that is answered with 503.
 */
export class UnansweredError extends UnavailableError {}

/** The user ended a command: with Ctrl-C at a prompt or in a call, or with a second signal during shutdown. Not printed. */
export class Interrupted extends Error {
  override readonly name = "Interrupted"
  constructor(readonly during: "prompt" | "call" | "shutdown") {
    super(`interrupted during ${during}`)
  }
}

/** The exit code of `svc run` if the tool reports an error. */
export const TOOL_FAILED = 1
/** The exit code of a command whose output could not be written. */
export const OUTPUT_FAILED = 74

/** The exit codes of commands, with the meanings of sysexits.h. */
export const EXIT_CODES: readonly { readonly code: number; readonly meaning: string }[] = [
  { code: 0, meaning: "success" },
  {
    code: TOOL_FAILED,
    meaning: "`svc run`: the tool reported an error; `svc doctor`: warnings; or a second signal cut the shutdown short",
  },
  { code: 2, meaning: "`svc doctor`: errors" },
  { code: 64, meaning: "usage error: an unknown command, flag, server or value" },
  { code: 69, meaning: "unavailable: no running svc, a port in use, an unhealthy or unreachable server" },
  { code: 70, meaning: "internal error: a bug in svc" },
  { code: OUTPUT_FAILED, meaning: "the output could not be written, for example because the disk is full" },
  { code: 75, meaning: "`svc health`: unhealthy, but only because servers are still starting" },
  { code: 78, meaning: "configuration error; `svc config check` shows where" },
  { code: 130, meaning: "Ctrl-C at a prompt, or in `svc run`" },
]

/** The codes of an error at the three borders of the process: shell, HTTP and JSON-RPC. */
export type Codes = { readonly exit: number; readonly http: number; readonly rpc: number }

/** Advice for programmers in the messages of Bun's fetch. */
const ADVICE = / For more information, pass `verbose: true` in the second argument to fetch\(\)\.?/

/** The error codes of JSON-RPC 2.0, section 5.1. The protocol's own codes are in wire/era.ts. */
export const RPC_CODE = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
} as const

const REQUEST_CODES: Record<RequestFault, Codes> = {
  usage: { exit: 64, http: 400, rpc: RPC_CODE.invalidRequest },
  parse: { exit: 64, http: 400, rpc: RPC_CODE.parseError },
  invalid_request: { exit: 64, http: 400, rpc: RPC_CODE.invalidRequest },
  unknown_method: { exit: 64, http: 404, rpc: RPC_CODE.methodNotFound },
  invalid_params: { exit: 64, http: 400, rpc: RPC_CODE.invalidParams },
  not_found: { exit: 64, http: 404, rpc: RPC_CODE.invalidParams },
  conflict: { exit: 64, http: 409, rpc: RPC_CODE.invalidRequest },
  too_large: { exit: 64, http: 413, rpc: RPC_CODE.invalidRequest },
  too_many: { exit: 64, http: 429, rpc: RPC_CODE.invalidRequest },
  unauthorized: { exit: 64, http: 401, rpc: RPC_CODE.invalidRequest },
  forbidden: { exit: 64, http: 403, rpc: RPC_CODE.invalidRequest },
  wrong_method: { exit: 64, http: 405, rpc: RPC_CODE.invalidRequest },
  not_acceptable: { exit: 64, http: 406, rpc: RPC_CODE.invalidRequest },
  unsupported_media_type: { exit: 64, http: 415, rpc: RPC_CODE.invalidRequest },
  precondition_failed: { exit: 64, http: 412, rpc: RPC_CODE.invalidRequest },
  precondition_required: { exit: 64, http: 428, rpc: RPC_CODE.invalidRequest },
}

/** Returns the HTTP status of a request error, for responses that are rendered without throwing one. */
export const statusOfFault = (fault: RequestFault): number => REQUEST_CODES[fault].http

/** HTTP statuses of responses other than request errors: successes, and reports of an outage. */
export const HTTP_STATUS = {
  ok: 200,
  created: 201,
  accepted: 202,
  noContent: 204,
  seeOther: 303,
  notModified: 304,
  /** A backend failed a call whose response has no JSON-RPC body to report the failure, or another replica failed a request. */
  badGateway: 502,
  unavailable: 503,
} as const

/** The reason phrases of error statuses, for problem details. RFC 9110, 15; RFC 6585. */
export const STATUS_PHRASES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  409: "Conflict",
  412: "Precondition Failed",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  428: "Precondition Required",
  429: "Too Many Requests",
  500: "Internal Server Error",
  502: "Bad Gateway",
  503: "Service Unavailable",
}

/** Returns the codes of any thrown value. */
export function codesOf(error: unknown): Codes {
  if (error instanceof RequestError) return REQUEST_CODES[error.fault]
  if (error instanceof ConfigError) return { exit: 78, http: 503, rpc: RPC_CODE.internalError }
  if (error instanceof BackendError) return { exit: 69, http: 503, rpc: RPC_CODE.internalError }
  if (error instanceof UnansweredError) return { exit: 69, http: HTTP_STATUS.badGateway, rpc: RPC_CODE.internalError }
  if (error instanceof UnavailableError) return { exit: 69, http: 503, rpc: RPC_CODE.internalError }
  if (error instanceof Interrupted)
    return { exit: error.during === "shutdown" ? 1 : 130, http: 500, rpc: RPC_CODE.internalError }
  return { exit: 70, http: 500, rpc: RPC_CODE.internalError }
}

/** Returns the kind of an error as a word, for programs. */
export function errorWord(error: unknown): string {
  if (error instanceof RequestError) return error.fault
  if (error instanceof ConfigError) return "invalid_configuration"
  if (error instanceof BackendError) return "server_failed"
  if (error instanceof UnavailableError) return "unavailable"
  return error instanceof Interrupted ? "interrupted" : "internal"
}

/** Returns the message for clients: a typed error's own message; "internal error" for any other value. */
export function publicMessage(error: unknown): string {
  return isTyped(error) ? error.message : "internal error"
}

/** Whether an error is a bug of svc: any thrown value except the typed errors here. */
export const isBug = (error: unknown): boolean => !isTyped(error)

/** Returns the message of any thrown value, for the log and for `lastError`. The caller must redact it. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(ADVICE, "") : String(error)
}

/** Returns the message of a failed file operation without its path, for a sentence that names the path already. */
export const fileProblem = (error: unknown): string => messageOf(error).replace(/, [a-z]+ '.*'$/s, "")

/** Returns `file:line:column: message`, without the parts that are unknown. */
export function formatIssue(issue: Issue): string {
  const place = [issue.file, issue.line, issue.column].filter((part) => part !== undefined).join(":")
  return place === "" ? issue.message : `${place}: ${issue.message}`
}

// ---

const isTyped = (error: unknown): error is RequestError | ConfigError | BackendError | UnavailableError =>
  error instanceof RequestError ||
  error instanceof ConfigError ||
  error instanceof BackendError ||
  error instanceof UnavailableError
