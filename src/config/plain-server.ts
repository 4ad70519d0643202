/**
 * Checks servers without the schema: a start checks each server, and loading and building the schema takes 10 ms. The schema
 * accepts each server that this check accepts, and returns it unchanged (`plain-server.test.ts`). If this check fails, the schema
 * decides, and describes what is wrong.
 */
import { isObject } from "../wire/message.ts"
import type { ServerConfig } from "./schema.ts"

/** Whether a server has only known keys, with values in their usual forms. */
export const isPlainServer = (server: unknown): server is ServerConfig =>
  isObject(server) &&
  Object.entries(server).every(([key, value]) => Object.hasOwn(USUAL, key) && USUAL[key]?.(value) === true)

// ---

type Check = (value: unknown) => boolean

const isText: Check = (value) => typeof value === "string"
const isFilledText: Check = (value) => typeof value === "string" && value !== ""
const isBoolean: Check = (value) => typeof value === "boolean"
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText)
const isTextByName: Check = (value) => isObject(value) && Object.values(value).every(isText)
/** Milliseconds, or a count. */
const isPositive: Check = (value) => Number.isInteger(value) && Number(value) >= 1 && Number(value) < 2 ** 31
const isOneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    typeof value === "string" && words.includes(value)
/** Registry entry of a server that `svc mcp install` wrote. */
const isOrigin: Check = (value) =>
  isObject(value) &&
  ["registry", "name", "version"].every((key) => isText(value[key])) &&
  Object.entries(value).every(([key, part]) =>
    key === "values"
      ? isTextByName(part)
      : ["registry", "name", "version", "type", "package"].includes(key) && isText(part),
  )

const USUAL: Readonly<Record<string, Check>> = {
  type: isOneOf("stdio", "http", "sse", "streamableHttp"),
  command: isFilledText,
  args: isTexts,
  cwd: isText,
  env: isTextByName,
  url: isFilledText,
  headers: isTextByName,
  tags: isTexts,
  disabled: isBoolean,
  disabledTools: isTexts,
  alwaysVisible: isTexts,
  alwaysLoad: isBoolean,
  inheritParentEnv: isBoolean,
  envFilter: isTexts,
  restartOnExit: isBoolean,
  maxRestarts: isPositive,
  restartDelay: isPositive,
  connectionTimeout: isPositive,
  requestTimeout: isPositive,
  unresponsiveTimeout: isPositive,
  timeout: isPositive,
  rateLimit: isPositive,
  maxProcesses: isPositive,
  idleTimeout: isPositive,
  start: isOneOf("eager", "lazy"),
  stateful: isBoolean,
  protocolVersion: isOneOf("legacy", "2026-07-28", "auto"),
  isolation: isOneOf("shared", "session"),
  replicas: isOneOf("all", "one"),
  toolPinning: isOneOf("off", "report", "strict"),
  installedFrom: isOrigin,
  stderr: isOneOf("pipe", "overlapped", "inherit", "ignore"),
}
