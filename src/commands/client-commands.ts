/** Shared by the commands that work on clients' files: their arguments, and the options with which svc would start here. */
import { readServeOptions } from "../app/serve-options.ts"
import type { ConfiguredOptions } from "../features/connect/client-endpoint.ts"
import { CLIENTS } from "../features/connect/clients.ts"
import { CONTEXT_ARGS } from "./command-context.ts"

/** The arguments of the commands that change a file of a client. */
export const CLIENT_ARGS = {
  client: {
    type: "positional",
    required: false,
    description: `Client: ${CLIENTS.join(", ")}`,
    valueHint: CLIENTS.join("|"),
  },
  ...CONTEXT_ARGS,
  scope: {
    type: "string",
    description: "Which file of the client: user or project (default user)",
    valueHint: "user|project",
  },
  name: { type: "string", alias: "as", description: "Name of the entry in the client (default svc)" },
  "dry-run": { type: "boolean", description: "Only show what would change" },
  undo: { type: "boolean", description: "Undo the last change of the client's file" },
  yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
} as const

/** Returns the options that the environment gives `svc serve`. Throws a RequestError (usage) if one is not valid. */
export const configuredOptions: ConfiguredOptions = () => readServeOptions({}, process.env, process.platform)
