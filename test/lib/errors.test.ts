import { expect, test } from "bun:test"
import {
  BackendError,
  ConfigError,
  codesOf,
  EXIT_CODES,
  fileProblem,
  formatIssue,
  Interrupted,
  messageOf,
  publicMessage,
  RequestError,
  UnavailableError,
} from "../../src/lib/errors.ts"

test("a typed error has the codes of its owner", () => {
  expect(codesOf(new ConfigError([]))).toEqual({ exit: 78, http: 503, rpc: -32603 })
  expect(codesOf(new BackendError("web", "gone"))).toEqual({ exit: 69, http: 503, rpc: -32603 })
  expect(codesOf(new RequestError("invalid_params", "no such tool")).rpc).toBe(-32602)
})

test("an untyped error is internal and its message is not public", () => {
  const error = new TypeError("secret is not a function")
  expect(codesOf(error)).toEqual({ exit: 70, http: 500, rpc: -32603 })
  expect(publicMessage(error)).toBe("internal error")
})

test("an issue is written as file:line:column", () => {
  const issue = { code: "json", severity: "error", message: "a comma is missing", file: "mcp.json", line: 3, column: 7 }
  expect(formatIssue(issue as never)).toBe("mcp.json:3:7: a comma is missing")
  expect(formatIssue({ code: "x", severity: "warning", message: "alone" })).toBe("alone")
})

test("Bun's advice for programmers is removed from a message", () => {
  const advice = "For more information, pass `verbose: true` in the second argument to fetch()"
  expect(messageOf(new Error(`The socket connection was closed unexpectedly. ${advice}`))).toBe(
    "The socket connection was closed unexpectedly.",
  )
})

test("the problem of a file operation does not repeat the path", () => {
  const failed = (message: string) => fileProblem(new Error(message))
  expect(failed("ENOENT: no such file or directory, open '/a, b'")).toBe("ENOENT: no such file or directory")
  expect(failed("EXDEV: cross-device link, rename '/a' -> '/b'")).toBe("EXDEV: cross-device link")
  expect(failed("unable to open database file")).toBe("unable to open database file")
})

test("every exit code of an error is documented", () => {
  const faults = ["usage", "parse", "not_found", "conflict", "too_many", "forbidden"] as const
  const errors = [
    ...faults.map((fault) => new RequestError(fault, "")),
    new ConfigError([]),
    new BackendError("a", ""),
    new UnavailableError(""),
    new Interrupted("prompt"),
    new Interrupted("shutdown"),
    new Error(""),
  ]
  const documented = EXIT_CODES.map(({ code }) => code)
  for (const error of errors) expect(documented).toContain(codesOf(error).exit)
})
