/** Types of the answers of REST, inferred from svc's schemas, and of the state of the page. */
import type * as z from "zod"
import type {
  approvalSchema,
  effectiveSchema,
  issueSchema,
  lineSchema,
  presetSchema,
  toolSchema,
} from "../features/rest/shapes.ts"
import type { missingSchema } from "../features/tools/install-draft.ts"
import type { entrySchema } from "../features/tools/registry-entries.ts"
import type { ServerDetails } from "../features/tools/servers.ts"
import type { ServerState, TONE_BY_STATE } from "../report/server-state.ts"
import type { ServerStatus } from "../report/status.ts"
import type { Problem } from "./api.ts"

export type Server = ServerDetails
export type ServerInstance = ServerStatus
export type { ServerState }
/** The color of each state, as in a terminal. */
export type StateTones = typeof TONE_BY_STATE
export type Tool = z.output<typeof toolSchema> & { readonly server: string; readonly qualifiedName: string }
export type Preset = z.output<typeof presetSchema>
export type EffectiveValue = z.output<typeof effectiveSchema>
export type LogLine = z.output<typeof lineSchema>
export type Approval = z.output<typeof approvalSchema>
export type Issue = z.output<typeof issueSchema>

type RegistryEntry = z.output<typeof entrySchema>
/** A value that an installation needs. */
type NeededValue = z.output<typeof missingSchema>

export type RegistrySearch = {
  readonly servers: readonly RegistryEntry[]
  readonly total: number
  readonly warnings: readonly string[]
}

export type RegistryInfo = {
  readonly serverName: string
  readonly entry?: RegistryEntry
  /** The command that an installation would run. */
  readonly command?: string
  readonly required: readonly NeededValue[]
  readonly optional: readonly NeededValue[]
  readonly warnings: readonly string[]
}

/** The plan of an installation with its digest, or the result of an installation. */
export type InstallAnswer = {
  readonly serverName: string
  readonly command: string
  /** Describes the settings that serverDefaults adds. */
  readonly inherited?: string
  readonly source: string
  readonly missing: readonly NeededValue[]
  /** The names of the variables that hold secrets. */
  readonly variables: readonly string[]
  readonly warnings: readonly string[]
  readonly digest?: string
  readonly state?: string
  readonly tools?: number
}

/** A client, and the user's file of it. */
export type Client = {
  readonly client: string
  readonly title: string
  readonly file: string
  /** `connected`, `not connected …`, `no file`, or why the file cannot be read. */
  readonly state: string
  /** The preset that its entry asks for. */
  readonly preset?: string
  /** Whether svc can undo its last change of the file. */
  readonly undo?: boolean
}

/** What an import of the servers in the files of clients would add, or has added. */
export type ImportAnswer = {
  readonly added: readonly string[]
  /** Why files of clients could not be read. */
  readonly skipped: readonly string[]
  readonly found: readonly {
    readonly name: string
    readonly file: string
    readonly application?: string
    readonly title?: string
    readonly command: string
    readonly notes: readonly string[]
    readonly projectFolder?: string
    readonly problem?: string
    readonly same?: true
  }[]
  readonly digest: string
}

/** A server in a pasted text. */
export type PastedServer = {
  readonly name: string
  readonly server: Readonly<Record<string, unknown>>
  readonly template: boolean
  readonly notes: readonly string[]
  readonly problem?: string
}

/** A problem that `svc doctor` finds. */
export type Finding = {
  readonly check: string
  readonly severity: "error" | "warning"
  readonly what: string
  readonly why: string
  readonly fix: string
  readonly subject?: string
  readonly fixable: boolean
}

export type OfferedPrompt = {
  readonly name: string
  readonly title?: string
  readonly description?: string
  readonly arguments?: readonly { readonly name: string; readonly description?: string; readonly required?: boolean }[]
}

export type OfferedResource = {
  readonly uri: string
  readonly name?: string
  readonly title?: string
  readonly description?: string
  readonly mimeType?: string
}

/** Bytes of memory, and milliseconds of processor time. */
export type Usage = { readonly memory: number; readonly cpu: number }

/** The entry of a server in mcp.json, with hidden secrets. */
export type WrittenServer = {
  readonly name: string
  readonly section: string
  readonly server: Record<string, unknown>
  readonly hash: string
}

export type Configuration = {
  readonly file: string
  readonly servers: readonly WrittenServer[]
  readonly issues: readonly Issue[]
}

/** The answer to an update, planned or done. */
export type UpdateAnswer = {
  readonly from: string
  readonly to: string
  readonly command: string
  readonly inherited?: string
  readonly bundle?: string
  readonly changes: readonly { readonly key: string; readonly from?: string; readonly to?: string }[]
  readonly missing: readonly { readonly name: string; readonly description?: string }[]
  readonly warnings: readonly string[]
  readonly digest?: string
}

export type Status = {
  readonly version: string
  readonly uptimeSeconds: number
  readonly pid: number
  readonly file: string
  readonly endpoint?: string
  readonly loaded: boolean
  readonly authEnabled: boolean
  /** The command of a small built-in server. */
  readonly demo: readonly string[]
  readonly isDemo: boolean
  /** What svc keeps of the last calls. */
  readonly activity: "off" | "names" | "content"
  readonly servers: Readonly<Record<string, number>>
  readonly sessions: number
  readonly callsInFlight: number
  readonly issues: number
  readonly warnings: readonly string[]
}

/** The calls of one tool in one minute. */
export type Activity = {
  readonly minute: string
  readonly server: string
  readonly tool: string
  readonly calls: number
  readonly errors: number
  readonly meanMs: number
  readonly maxMs: number
}

export type FinishedCall = {
  readonly server: string
  readonly tool: string
  readonly outcome: string
  readonly ms: number
  readonly time: string
}

/** A finished call with its arguments and the beginning of its answer. */
export type CallRecord = FinishedCall & {
  readonly id: number
  readonly qualifiedName?: string
  readonly client: string
  readonly principal: string
  /** Milliseconds that it waited for its server or for a person, and that the server had it. */
  readonly waited: number
  readonly atServer: number
  /** Absent if svc did not keep the content of the call. */
  readonly arguments?: unknown
  /** Whether `arguments` is all that was sent. */
  readonly whole: boolean
  readonly answer?: string
}

/** A question of a tool to a person. */
export type ToolQuestion = {
  readonly id: string
  readonly asks: string
  readonly message: string
  readonly requestedSchema?: Readonly<Record<string, unknown>>
  readonly url?: string
}

/** The state of the page. The event stream keeps it up to date. */
export type State = {
  /** "login": REST requires a login. "lost": svc does not answer, or answers with an error; `trouble` says which. */
  readonly phase: "loading" | "login" | "ready" | "lost"
  readonly trouble: string
  /** The login that svc requires. */
  readonly requiredLogin: Problem["requiredLogin"]
  /** Why svc refused the browser's current login. */
  readonly refusal: string | undefined
  readonly principal: string
  readonly status: Status | undefined
  readonly servers: readonly Server[]
  readonly file: string
  readonly issues: readonly Issue[]
  readonly activity: readonly Activity[]
  /** When svc started to count calls; undefined until it is known. */
  readonly countedSince: string | undefined
  /** The last calls, newest first. */
  readonly calls: readonly FinishedCall[]
  /** The questions of tools that wait for a person, of all pages. */
  readonly questions: readonly ToolQuestion[]
  /** Increases when the tools, prompts or resources of servers have changed. */
  readonly catalog: number
  /** Increases when svc has applied or refused the configuration. */
  readonly configuration: number
}

export const EMPTY_STATE: State = {
  phase: "loading",
  trouble: "",
  requiredLogin: "nothing",
  refusal: undefined,
  principal: "",
  status: undefined,
  servers: [],
  file: "",
  issues: [],
  activity: [],
  countedSince: undefined,
  calls: [],
  questions: [],
  catalog: 0,
  configuration: 0,
}
