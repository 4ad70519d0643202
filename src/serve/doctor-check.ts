/** A check of svc on this machine, for `svc doctor`: its input and its findings. */
import type { ServerSpec } from "../config/server-spec.ts"
import type { Clock } from "../lib/clock.ts"
import type { Status } from "../report/status.ts"
import type { LocalConfiguration } from "./local-configuration.ts"

export type DoctorCheck = {
  readonly id: string
  /** What it checks, for people. */
  readonly subject: string
  /** Changes nothing. The findings contain safe repairs, and name no secret. */
  readonly run: (installation: Installation) => readonly Finding[] | Promise<readonly Finding[]>
}

/** A problem, present or expected. */
export type Finding = {
  readonly check: string
  readonly severity: "warning" | "error"
  /** The server, file or client that has the problem. */
  readonly subject?: string
  readonly what: string
  readonly why: string
  /** The command or the action that fixes it. */
  readonly fix: string
  /** A repair that loses no data. */
  readonly repair?: () => void
}

/** The input of the checks. */
export type Installation = {
  readonly context: LocalConfiguration
  /** The status of the running svc; undefined if none runs. */
  readonly live: (Status & { readonly version?: string }) | undefined
  /** The servers of the file; none if it is not valid. */
  readonly specs: readonly ServerSpec[]
  readonly clock: Clock
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
}
