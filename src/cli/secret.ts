/** `svc secret`: stores secrets outside of mcp.json, which refers to them. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, openContext } from "../commands/command-context.ts"
import { FOLLOW_ARGS, finishChange } from "../commands/follow.ts"
import { addVariables, parseDotenv, withoutVariable } from "../config/dotenv.ts"
import { keyHolders, writtenName } from "../config/edit.ts"
import { schemeOf } from "../config/environment.ts"
import { moveKeys } from "../config/externalize-secrets.ts"
import type { HostEnvironment } from "../config/plan.ts"
import { referencesIn } from "../config/substitution.ts"
import { isStorableName, NAME_RULE } from "../features/secrets/references.ts"
import { hasSecret, readSecret, removeSecret, storedNames, storeSecret } from "../features/secrets/secret-store.ts"
import { systemClock } from "../lib/clock.ts"
import { readOptions, usageError } from "../lib/command-line.ts"
import { RequestError } from "../lib/errors.ts"
import { isSameValue, mapStrings } from "../lib/json.ts"
import { print, say, table } from "../lib/output.ts"
import { isInteractive, promptLine, promptYesNo } from "../lib/prompt.ts"
import { counted } from "../lib/text.ts"
import { configuredServers, type LocalConfiguration } from "../serve/local-configuration.ts"
import { readTexts } from "../store/documents.ts"
import { changeDocuments } from "../store/transaction.ts"
import type { Params } from "../wire/message.ts"

const NAME = { type: "positional", required: true, description: "Name of the secret", valueHint: "secret" } as const
const PLACES = ["keychain", ".env"] as const
const to = (byDefault: (typeof PLACES)[number]) =>
  ({
    type: "string",
    description: `Where the secret is stored: keychain (that of the system) or .env (default ${byDefault})`,
    valueHint: "keychain|.env",
  }) as const

export const secret: CommandDef = {
  meta: { name: "secret", description: "Store secrets outside of mcp.json, which refers to them" },
  subCommands: {
    set: {
      meta: { name: "set", description: "Store a secret, read from a prompt or from stdin" },
      args: { name: NAME, to: to("keychain"), ...CONTEXT_ARGS, ...FOLLOW_ARGS },
      async run({ args }) {
        const context = openContext(args)
        if (args._.length > 1)
          throw usageError(
            "give only the name: svc reads the value from a prompt or from stdin, because other users can see the arguments of a command",
          )
        const [name, place] = [nameOf(args), placeOf(args, "keychain")]
        const value = await readValue(name)
        if (place === "keychain") await storeSecret(Bun.secrets, context.paths, name, value)
        else
          await changeDotenv(context, (text, file) =>
            addVariables(withoutVariable(text, name, file), { [name]: value }, file),
          )
        return finishChange(
          context,
          args,
          {
            result: { secret: name, storedIn: place, reference: referenceTo(name, place) },
            done: `stored ${name} in ${placeText(context, place)}; mcp.json refers to it as ${referenceTo(name, place)}`,
          },
          "fresh",
        )
      },
    },
    rm: {
      meta: { name: "rm", description: "Remove a secret" },
      args: {
        name: NAME,
        to: { ...to("keychain"), description: "Where the secret is: keychain or .env (default keychain)" },
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
      },
      async run({ args }) {
        const context = openContext(args)
        const [name, place] = [nameOf(args), placeOf(args, "keychain")]
        const removed =
          place === "keychain"
            ? await removeSecret(Bun.secrets, context.paths, name)
            : await changeDotenv(context, (text, file) => withoutVariable(text, name, file))
        if (!removed)
          throw new RequestError(
            "not_found",
            `${placeText(context, place)} has no ${name}; \`svc secret list\` shows the secrets`,
          )
        const users = usesOf(context).get(place === "keychain" ? `keychain:${name}` : name) ?? []
        const warnings = users.map((server) => `${server} still refers to ${referenceTo(name, place)}`)
        return finishChange(
          context,
          args,
          {
            result: { secret: name, removedFrom: place },
            done: `removed ${name} from ${placeText(context, place)}`,
            warnings,
          },
          "fresh",
        )
      },
    },
    list: {
      meta: { name: "list", description: "List the secrets and the servers that use them, without their values" },
      args: CONTEXT_ARGS,
      async run({ args }) {
        const context = openContext(args)
        const rows = await listed(context)
        print(args.json === true, rows, () =>
          rows.length === 0
            ? "no secrets yet; `svc secret set NAME` stores one"
            : table(
                ["reference", "state", "used by"],
                rows.map(({ reference, state, servers }) => [reference, state, servers.join(", ")]),
              ),
        )
        return 0
      },
    },
    refresh: {
      meta: {
        name: "refresh",
        description: "Make the running svc read all secrets again; it restarts the servers whose secrets have changed",
      },
      args: { ...CONTEXT_ARGS, ...FOLLOW_ARGS },
      run({ args }) {
        return finishChange(
          openContext(args),
          args,
          { result: { refreshed: true }, done: "read the secrets again" },
          "fresh",
        )
      },
    },
    import: {
      meta: { name: "import", description: "Move what looks like a key in mcp.json to .env or to the keychain" },
      args: {
        name: {
          type: "positional",
          required: false,
          description: "Name of one server (default: all)",
          valueHint: "server",
        },
        to: to(".env"),
        yes: { type: "boolean", alias: "y", description: "Do not ask for confirmation" },
        "dry-run": { type: "boolean", description: "Only show what would be moved" },
        ...CONTEXT_ARGS,
        ...FOLLOW_ARGS,
      },
      run: ({ args }) => importKeys(args),
    },
  },
}

// ---

type Place = (typeof PLACES)[number]

/** The longest value. */
const MAX_CHARS = 64 * 1024

const placeOf = (args: Readonly<Record<string, unknown>>, byDefault: Place): Place =>
  readOptions(args, {}).choice("to", PLACES, byDefault)

const placeText = ({ paths }: LocalConfiguration, place: Place): string =>
  place === "keychain" ? "the keychain" : paths.dotenv

const referenceTo = (name: string, place: Place): string =>
  place === "keychain" ? `\${keychain:${name}}` : `\${${name}}`

/** Returns the name that a command gives. Throws a RequestError (usage) for a name that no reference can have. */
function nameOf(args: Readonly<Record<string, unknown>>): string {
  const name = String(args.name)
  const isVariable = placeOf(args, "keychain") === ".env"
  if (isVariable ? /^[A-Za-z_]\w*$/.test(name) : isStorableName(name)) return name
  throw usageError(
    isVariable
      ? `"${name}" is no name of a variable: use letters, digits and _, with no digit first`
      : `"${name}" is no name of a secret: choose one of at most 200 characters, with ${NAME_RULE}`,
  )
}

/** Reads the value of a secret at the terminal, without an echo, or from stdin, without the end of its last line. */
async function readValue(name: string): Promise<string> {
  const text = isInteractive() ? await promptLine(`value of ${name}: `, true) : utf8(name, await Bun.stdin.bytes())
  const value = text.replace(/\r?\n$/, "")
  if (value === "") throw usageError(`the value of ${name} is empty; pipe it in, or run the command at a terminal`)
  if (value.length > MAX_CHARS) throw usageError(`the value of ${name} is longer than ${MAX_CHARS} characters`)
  return value
}

/** Returns bytes as text. Throws a RequestError (usage) if they are not UTF-8: what svc would store is not what was given. */
function utf8(name: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    throw usageError(`the value of ${name} is not UTF-8 text; encode it, for example as base64`)
  }
}

/** Changes `.env`. Resolves to whether it has changed. */
async function changeDotenv(
  { paths }: LocalConfiguration,
  change: (text: string, file: string) => string,
): Promise<boolean> {
  const { before, after, keep } = await changeDocuments(
    paths,
    (written) => ({ ...written, dotenv: change(written.dotenv, paths.dotenv) }),
    systemClock,
  )
  keep()
  return before.dotenv !== after.dotenv
}

/** Returns the servers and the other parts of mcp.json that use each of its references, by the reference. */
function usesOf(context: LocalConfiguration): ReadonlyMap<string, readonly string[]> {
  const uses = new Map<string, readonly string[]>()
  for (const { name: user, settings } of keyHolders(context.document()))
    mapStrings(settings, (text) => {
      for (const name of referencesIn(text)) uses.set(name, [...new Set([...(uses.get(name) ?? []), user])])
      return text
    })
  return uses
}

type Listed = { readonly reference: string; readonly state: string; readonly servers: readonly string[] }

async function listed(context: LocalConfiguration): Promise<readonly Listed[]> {
  const uses = usesOf(context)
  const variables = Object.keys(parseDotenv(readTexts(context.paths).dotenv() ?? "", context.paths.dotenv))
  const references = [
    ...new Set([
      ...[...uses.keys()].filter((name) => schemeOf(name) !== undefined),
      ...storedNames(context.paths).map((name) => `keychain:${name}`),
      ...variables,
    ]),
  ].sort()
  return Promise.all(
    references.map(async (name) => ({
      reference: `\${${name}}`,
      state: await stateOf(name),
      servers: uses.get(name) ?? [],
    })),
  )
}

/** Returns where a secret is, or that it is missing. */
async function stateOf(reference: string): Promise<string> {
  switch (schemeOf(reference)) {
    case "keychain": {
      const has = await hasSecret(Bun.secrets, reference.slice("keychain:".length))
      if (has === undefined) return "the keychain cannot be read"
      return has ? "in the keychain" : "missing"
    }
    case "file":
      return "in a file"
    case "cmd":
      return "from a command"
    default:
      return "in .env"
  }
}

/** Returns what the keychain has under the names that the keys would get there, by name. */
async function storedFor(
  config: string,
  servers: readonly string[] | "all",
  world: HostEnvironment,
): Promise<Readonly<Record<string, string>>> {
  const asked = new Map<string, string | null>()
  for (;;) {
    const stored = Object.fromEntries([...asked].flatMap(([name, value]) => (value === null ? [] : [[name, value]])))
    const { variables } = moveKeys(config, servers, { ...world, parent: {}, dotenv: stored })
    const fresh = Object.keys(variables).filter((name) => !asked.has(name))
    if (fresh.length === 0) return stored
    for (const name of fresh) asked.set(name, await readSecret(Bun.secrets, name))
  }
}

async function importKeys(args: Readonly<Record<string, unknown>>): Promise<number> {
  const context = openContext(args)
  const { paths } = context
  const place = placeOf(args, ".env")
  const servers = configuredServers({ paths }).keys()
  const names = typeof args.name === "string" ? [writtenName(args.name, servers)] : "all"
  const reference = (variable: string) => referenceTo(variable, place)
  const texts = readTexts(paths)
  const text = texts.config() ?? "{}"
  const stored = place === "keychain" ? await storedFor(text, names, context.world()) : undefined
  /** The names that are taken where the keys go. */
  const worldFor = (dotenv: string) => {
    const world = context.worldOf(dotenv)
    return stored === undefined ? world : { ...world, parent: {}, dotenv: stored }
  }
  const preview = moveKeys(text, names, worldFor(texts.dotenv() ?? ""), reference)
  const places = preview.places.map(({ place }) => place)
  const report = (moved: boolean, done: string) => {
    const result: Params = { moved: moved ? places : [], found: places, storedIn: place }
    return { result, done }
  }
  const still = { ...args, wait: false }
  if (places.length === 0)
    return finishChange(context, still, report(false, `nothing in ${paths.file} looks like a key`))
  const count = counted(Object.keys(preview.variables).length, "key")
  if (args.json !== true)
    for (const { place, before, after } of preview.places) say(`- ${place} ${before}\n+ ${place} ${after}`)
  if (args["dry-run"] === true) return finishChange(context, still, report(false, `would move ${count}`))
  if (args.yes !== true) {
    if (!isInteractive()) return finishChange(context, still, report(false, "moved nothing; --yes moves them"))
    if (!(await promptYesNo(`move ${count} to ${placeText(context, place)}?`)))
      return finishChange(context, still, report(false, "moved nothing"))
  }
  // Stored first: the running svc reads mcp.json as soon as it refers to them.
  if (place === "keychain")
    for (const [name, value] of Object.entries(preview.variables)) await storeSecret(Bun.secrets, paths, name, value)
  const { keep } = await changeDocuments(
    paths,
    (written) => {
      const moved = moveKeys(written.config, names, worldFor(written.dotenv), reference)
      if (!isSameValue(moved.variables, preview.variables))
        throw new RequestError("conflict", `${paths.file} has changed meanwhile; run the command again`)
      return {
        config: moved.config,
        dotenv: place === ".env" ? addVariables(written.dotenv, moved.variables, paths.dotenv) : written.dotenv,
      }
    },
    systemClock,
  )
  keep()
  const done = `moved ${count} to ${placeText(context, place)}; the backup of mcp.json still has them (\`svc config restore\` goes back to it)`
  return finishChange(context, args, report(true, done), "fresh")
}
