/** The address at which svc listens by default. */
import { readOptions } from "../lib/command-line.ts"

/** The port of `svc serve` unless another one is named. */
export const DEFAULT_PORT = 3050

/** Returns the port in SVC_PORT; undefined if there is none, or it is 0 for any free port. */
export const namedPort = (): number | undefined =>
  readOptions({}, process.env).integer("port", 0, 0, 65_535) || undefined

/** Returns the address at which svc listens by default. */
export const defaultAddress = (): string => `http://127.0.0.1:${namedPort() ?? DEFAULT_PORT}/`
