/**
 * Endpoints for the machine of svc: clients and the servers in their files, secrets, backups, and what `svc doctor` finds. Each runs
 * the command of svc that does the same. A change of files without `digest` only shows the change and its digest; the same request
 * with this digest makes exactly this change.
 */
import * as z from "zod"
import { digest } from "../../lib/digest.ts"
import { RequestError } from "../../lib/errors.ts"
import { isObject, type Params } from "../../wire/message.ts"
import { defineEndpoint, type Endpoint, type EndpointCall } from "./endpoint.ts"

const planned = {
  digest: z.string().min(1).optional().describe("The digest of the change that the person has seen"),
}
const changeSchema = z.looseObject({
  changed: z.boolean().describe("Whether a file was changed"),
  digest: z.string().describe("Identifies this change"),
  diff: z.string().optional().describe("The lines that change; secrets are hidden"),
  file: z.string().optional(),
})

const clients = defineEndpoint({
  method: "GET",
  path: "/clients",
  summary: "List the MCP clients that svc knows, with the user's file of each, and whether they are connected",
  answer: z.strictObject({
    items: z.array(
      z.looseObject({
        client: z.string(),
        title: z.string(),
        file: z.string(),
        state: z.string().describe("connected, not connected, no file, or why the file cannot be read"),
        name: z.string().optional().describe("The name of svc in the file"),
        preset: z.string().optional().describe("The preset that the entry for svc selects"),
        undo: z.boolean().optional().describe("Whether svc has changed the file, and can undo that"),
      }),
    ),
  }),
  faults: [],
  async run({ ports }) {
    const rows = itemsOf(await ports.runCommand(["connect", "--list"]))
    return { items: rows.filter(({ scope }) => scope === "user") as never }
  },
})

const connect = defineEndpoint({
  method: "POST",
  path: "/clients/{name}/connect",
  summary: "Write svc into the file of a client",
  description: "As `svc connect`. Without `digest`, nothing changes: the answer shows the change.",
  body: z.strictObject({
    ...planned,
    preset: z.string().min(1).optional().describe("Offer only what this preset selects"),
    replace: z.boolean().default(false).describe("Remove the client's own entries for servers that svc serves"),
    address: z
      .boolean()
      .default(false)
      .describe("Connect to the address of svc, instead of letting the client start svc"),
  }),
  answer: changeSchema,
  faults: ["invalid_params", "not_found", "conflict"],
  run: (call) => {
    const { preset, replace, address } = call.body
    return change(call, [
      "connect",
      ...nameOf(call),
      address ? "--no-stdio" : "--stdio",
      ...(replace ? ["--replace"] : []),
      ...(preset === undefined ? [] : [`--preset=${preset}`]),
    ])
  },
})

const undoing = (word: "undo" | "disconnect"): Endpoint =>
  defineEndpoint({
    method: "POST",
    path: `/clients/{name}/${word}`,
    summary:
      word === "undo" ? "Undo the last change of a client's file by svc" : "Remove svc from the file of a client",
    description: `As \`svc ${word === "undo" ? "connect --undo" : "disconnect"}\`. Without \`digest\`, nothing changes: the answer shows the change.`,
    body: z.strictObject(planned),
    answer: changeSchema,
    faults: ["invalid_params", "not_found", "conflict"],
    run: (call) =>
      change(call, word === "undo" ? ["connect", ...nameOf(call), "--undo"] : ["disconnect", ...nameOf(call)]),
  })

const importSchema = z.looseObject({
  added: z.array(z.string()),
  skipped: z.array(z.string()).describe("Why files of clients could not be read"),
  found: z.array(
    z.looseObject({
      name: z.string(),
      file: z.string(),
      application: z.string().optional().describe("The client to which the file belongs"),
      title: z.string().optional().describe("The client's name for people"),
      command: z.string().describe("What svc would run; secrets are hidden"),
      notes: z.array(z.string()),
      projectFolder: z.string().optional().describe("The project in which the client offers it"),
      problem: z.string().optional().describe("Why it is not imported"),
      same: z.literal(true).optional().describe("svc already has it"),
    }),
  ),
  digest: z.string(),
})

/** The command also reads any file that is named in its place. */
const CLIENT = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,40}$/, "must be the name of a client")
  .optional()
  .describe("Only the servers of this client")
const PROJECTS = "Also the servers of projects; svc then offers them in every project"

const importable = defineEndpoint({
  method: "GET",
  path: "/import",
  summary: "Show the servers in the files of clients that svc could import",
  query: z.strictObject({ client: CLIENT, projects: z.stringbool().default(false).describe(PROJECTS) }),
  answer: importSchema,
  faults: ["invalid_params", "not_found"],
  run: ({ ports, query }) => plan(ports, importWords(query)),
})

const importServers = defineEndpoint({
  method: "POST",
  path: "/import",
  summary: "Import the servers in the files of clients",
  description: "As `svc config import`. `digest` is that of the answer which the person has seen.",
  body: z.strictObject({
    digest: z.string().min(1),
    only: z
      .array(z.string().regex(/^\P{Cc}{1,200}$/u, "must be the name of a server"))
      .min(1)
      .max(500)
      .optional()
      .describe("Import only the servers with these names in the answer of `GET /import` (default: all)"),
    client: CLIENT,
    projects: z.boolean().default(false).describe(PROJECTS),
  }),
  answer: importSchema,
  faults: ["invalid_params", "not_found", "conflict"],
  run: (call) =>
    change(call, importWords(call.body), ["--no-wait", ...(call.body.only ?? []).map((name) => `--only=${name}`)]),
})

const doctor = defineEndpoint({
  method: "GET",
  path: "/doctor",
  summary: "Find problems of svc and of its servers",
  description: "As `svc doctor`. This takes seconds, because it asks servers and registries.",
  answer: z.looseObject({
    findings: z.array(
      z.looseObject({
        severity: z.enum(["error", "warning"]),
        what: z.string(),
        why: z.string(),
        fix: z.string(),
        fixable: z.boolean().describe("Whether `POST /doctor` repairs it"),
      }),
    ),
  }),
  faults: [],
  run: async ({ ports }) => (await ports.runCommand(["doctor"])) as never,
})

const repair = defineEndpoint({
  method: "POST",
  path: "/doctor",
  summary: "Make the safe repairs of what was found",
  answer: z.looseObject({ findings: z.array(z.looseObject({ what: z.string(), fixed: z.boolean().optional() })) }),
  faults: [],
  run: async ({ ports }) => (await ports.runCommand(["doctor", "--fix", "--yes"])) as never,
})

const secrets = defineEndpoint({
  method: "GET",
  path: "/secrets",
  summary: "List the secrets and the servers that use them, without their values",
  answer: z.strictObject({
    items: z.array(z.looseObject({ reference: z.string(), state: z.string(), servers: z.array(z.string()) })),
  }),
  faults: [],
  run: async ({ ports }) => ({ items: itemsOf(await ports.runCommand(["secret", "list"])) as never }),
})

/** Where svc stores secrets itself. */
const STORED_IN = z.enum([".env", "keychain"]).default(".env")

/** Returns the flags for the place of a secret. svc watches `.env`, but must be told to read the keychain again. */
const placeFlags = (place: string): readonly string[] => [`--to=${place}`, ...(place === ".env" ? ["--no-wait"] : [])]

const setSecret = defineEndpoint({
  method: "PUT",
  path: "/secrets/{name}",
  summary: "Store a secret; svc restarts the servers that use it",
  body: z.strictObject({
    value: z.string().min(1).max(65_536),
    in: STORED_IN.describe("Where svc stores it"),
  }),
  private: true,
  answer: z.looseObject({ secret: z.string(), storedIn: z.string(), reference: z.string() }),
  faults: ["invalid_params"],
  run: async (call) =>
    (await call.ports.runCommand(
      ["secret", "set", ...nameOf(call), ...placeFlags(call.body.in)],
      call.body.value,
    )) as never,
})

const removeSecret = defineEndpoint({
  method: "DELETE",
  path: "/secrets/{name}",
  summary: "Remove a secret; `warnings` names the servers that still refer to it",
  query: z.strictObject({ in: STORED_IN.describe("Where the secret is") }),
  answer: z.looseObject({
    secret: z.string(),
    removedFrom: z.string(),
    warnings: z.array(z.string()).optional().describe("The servers that still refer to the secret"),
  }),
  faults: ["invalid_params", "not_found"],
  run: async (call) =>
    (await call.ports.runCommand(["secret", "rm", ...nameOf(call), ...placeFlags(call.query.in)])) as never,
})

const refreshSecrets = defineEndpoint({
  method: "POST",
  path: "/secrets/refresh",
  summary: "Read all secrets again; svc restarts the servers whose secrets have changed",
  answer: z.looseObject({ refreshed: z.boolean() }),
  faults: [],
  run: async ({ ports }) => (await ports.runCommand(["secret", "refresh"])) as never,
})

const backups = defineEndpoint({
  method: "GET",
  path: "/backups",
  summary: "List the backups of mcp.json, newest first",
  answer: z.strictObject({
    items: z.array(z.string()),
    changes: z.record(z.string(), z.string()).describe("What has changed after each backup, without values"),
  }),
  faults: [],
  async run({ ports }) {
    const all = itemsOf(await ports.runCommand(["config", "backups", "--verbose"]))
    return {
      items: all.map(({ backup }) => String(backup)),
      changes: Object.fromEntries(all.map(({ backup, change }) => [String(backup), String(change)])),
    }
  },
})

const restore = defineEndpoint({
  method: "POST",
  path: "/backups/{name}/restore",
  summary: "Restore a backup of mcp.json; svc backs up the current file first",
  body: z.strictObject(planned),
  answer: changeSchema,
  faults: ["invalid_params", "not_found", "conflict"],
  run: (call) => change(call, ["config", "restore", ...nameOf(call)], ["--no-wait"]),
})

const tokens = defineEndpoint({
  method: "GET",
  path: "/tokens",
  summary: "List the tokens of clients, without their values",
  answer: z.strictObject({ items: z.array(z.looseObject({ id: z.string(), name: z.string() })) }),
  faults: [],
  run: async ({ ports }) => ({ items: itemsOf(await ports.runCommand(["auth", "token", "list"])) as never }),
})

/** A name in a list that a flag of a command separates by commas. */
const LISTED = z.string().regex(/^[^\p{Cc},]{1,200}$/u, "must be a name without commas")

const createToken = defineEndpoint({
  method: "POST",
  path: "/tokens",
  summary: "Create a token for a client; only this answer contains the token itself",
  description:
    "As `svc auth token create`. Without `presets`, `tags` or `metricsOnly`, the token gives access to all servers and to REST. svc requires tokens only if it runs with `--auth`.",
  body: z.strictObject({
    name: z
      .string()
      .regex(/^(?=.*\S)[^\p{Cc}\p{Cf}]{1,200}$/u, "must be a name")
      .describe("Such as the name of its user; no other token may have it"),
    presets: z.array(LISTED).min(1).max(100).optional().describe("Bind the token to these presets"),
    tags: z.array(LISTED).min(1).max(100).optional().describe("Limit the token to servers with one of these tags"),
    metricsOnly: z.boolean().default(false).describe("Limit the token to reading /metrics"),
    expires: z
      .string()
      .regex(/^\w{1,20}$/, "must be a duration, such as 30d")
      .optional()
      .describe("Lifetime, such as 30d (default: does not expire)"),
  }),
  created: true,
  answer: z.looseObject({
    id: z.string(),
    name: z.string(),
    token: z.string().describe("The token itself; svc stores only a hash of it, and cannot show it again"),
    warnings: z.array(z.string()),
  }),
  faults: ["invalid_params", "not_found", "conflict"],
  run: async ({ ports, body: { name, presets = [], tags = [], metricsOnly, expires } }) =>
    (await ports.runCommand([
      ...["auth", "token", "create", `--name=${name}`],
      ...(presets.length === 0 ? [] : [`--preset=${presets.join(",")}`]),
      ...tags.map((tag) => `--tag=${tag}`),
      ...(metricsOnly ? ["--metrics-only"] : []),
      ...(expires === undefined ? [] : [`--expires=${expires}`]),
    ])) as never,
})

const revoke = defineEndpoint({
  method: "DELETE",
  path: "/tokens/{name}",
  summary: "Revoke a token, by its id",
  answer: z.looseObject({}),
  faults: ["invalid_params", "not_found"],
  run: async (call) => (await call.ports.runCommand(["auth", "token", "revoke", ...nameOf(call)])) as never,
})

export const MACHINE_ENDPOINTS: readonly Endpoint[] = [
  clients,
  connect,
  undoing("undo"),
  undoing("disconnect"),
  importable,
  importServers,
  doctor,
  repair,
  secrets,
  setSecret,
  removeSecret,
  refreshSecrets,
  backups,
  restore,
  tokens,
  createToken,
  revoke,
]

// ---

type Call = EndpointCall<Params, { readonly digest?: string | undefined }>

/** Returns the name in the path, as a word of a command. Throws a RequestError if the command would read it as a flag. */
function nameOf({ params: { name = "" } }: Pick<EndpointCall, "params">): readonly [string] {
  if (/^-|\0/.test(name)) throw new RequestError("invalid_params", `${name.slice(0, 100)} is not a name`)
  return [name]
}

type ImportQuery = { readonly client?: string | undefined; readonly projects: boolean }
const importWords = ({ client, projects }: ImportQuery): readonly string[] => [
  "config",
  "import",
  ...(client === undefined ? [] : nameOf({ params: { name: client } })),
  ...(projects ? ["--project"] : []),
]

/** Returns what a command would change, with the digest of this answer. */
async function plan({ runCommand }: Call["ports"], words: readonly string[]) {
  const shown = await runCommand([...words, "--dry-run"])
  return { ...(isObject(shown) ? shown : {}), digest: digest(JSON.stringify([words, shown]), 32) } as never
}

/** Shows a change, or makes it if the request has the digest of the change that the command would make now. */
async function change({ ports, body }: Call, words: readonly string[], more: readonly string[] = []) {
  const shown = (await plan(ports, words)) as { readonly digest: string }
  if (body.digest === undefined) return shown as never
  if (body.digest !== shown.digest)
    throw new RequestError("conflict", "The files have changed since you saw this change; look at it again")
  const done = await ports.runCommand([...words, ...more, "--yes"])
  return { ...(isObject(done) ? done : {}), digest: shown.digest } as never
}

const itemsOf = (answer: unknown): readonly Params[] => (Array.isArray(answer) ? answer.filter(isObject) : [])
