/**
 * Plans an installation: turns server.json and the given values into a server of mcp.json (the command that runs a package, or
 * the address of a remote) and names the missing values. Registry text is escaped: it never becomes a reference.
 */
import { isDeepStrictEqual } from "node:util"
import { isLoopback } from "../../lib/address.ts"
import type { Params } from "../../wire/message.ts"
import type { Argument, Input, NamedInput, Package, PackageTransport, RegistryEntry } from "./entry.ts"
import { baseOf, type PackageRunner, runnerOf, specOf } from "./package-runner.ts"

/** A value that a server takes, to request from the user. */
export type RequestedInput = {
  readonly name: string
  readonly description?: string
  readonly secret: boolean
  readonly choices?: readonly string[]
  readonly default?: string
}

/** A server of mcp.json, with the inputs that it still needs. */
export type Installable = {
  readonly server: Params
  /** Names in `env` and `headers` whose values are secret. */
  readonly secret: ReadonlySet<string>
  readonly missing: readonly RequestedInput[]
  /** Inputs that the user may give as well. */
  readonly optional: readonly RequestedInput[]
  /** The package with its version, as its runner takes it; undefined for a remote. */
  readonly package: string | undefined
  /** npm, pypi, oci …, mcpb, or remote. */
  readonly type: string
}

/** The given values by the names of their inputs, in the syntax of mcp.json. */
export type InputValues = Readonly<Record<string, string>>

/**
 * Returns how to run an entry, or the reason why svc cannot. `type` chooses among its packages and remotes; without it, packages
 * for which this machine has the command (`has`) come first, then remotes, then the other packages.
 */
export function planInstall(
  entry: RegistryEntry,
  values: InputValues,
  type?: string,
  has: (command: string) => boolean = () => true,
): Installable | { readonly reason: string } {
  const found = packageOf(entry, type, has)
  if (found !== undefined) return planPackage(found.one, found.runner, values)
  const remote = type === undefined || type === "remote" ? remoteOf(entry) : undefined
  if (remote !== undefined) return planRemote(remote, values)
  const withoutRunner = packageOf(entry, type)
  if (withoutRunner !== undefined) return planPackage(withoutRunner.one, withoutRunner.runner, values)
  const types = [
    ...new Set(
      entry.packages.map(({ registryType, registryBaseUrl, transport }) => {
        const from = registryBaseUrl === undefined ? "" : ` from ${registryBaseUrl}`
        return `${registryType}${from} over ${transport.type}`
      }),
    ),
  ]
  return {
    reason:
      types.length === 0
        ? "its entry names neither a package nor a remote address"
        : `its entry offers ${types.join(", ")}${type === undefined ? "" : `, not ${type}`}; svc runs npm, pypi, oci and nuget packages over stdio, mcpb bundles with an https address and a fileSha256, and remotes`,
  }
}

/**
 * Recovers the given values from the arguments of an installed server. Returns undefined if no values of the entry's inputs
 * result in these arguments, which means that the arguments have been edited.
 */
export function argumentValues(entry: RegistryEntry, args: readonly unknown[], values: InputValues, type?: string) {
  const found = packageOf(entry, type)
  if (found === undefined) return undefined
  const { one, runner } = found
  const rest = args.slice(args.indexOf(specOf(one, runner)) + 1).map(String)
  const flags = one.packageArguments.flatMap(({ type, name }) => (type === "named" ? [bareFlag(name ?? "")] : []))
  const given: Record<string, string> = {}
  for (const argument of one.packageArguments) {
    const { type, name = "", valueHint } = argument
    const texts = createRequestedInputs({}).argument(argument)
    const [next] = rest
    if (texts.length > 0 && texts.every((text, at) => text === rest[at])) rest.splice(0, texts.length)
    else if (type === "named" && next === bareFlag(name)) given[name] = rest.splice(0, 2)[1] ?? ""
    else if (type === "positional" && next !== undefined && !flags.includes(next))
      given[valueHint ?? (name || "argument")] = rest.splice(0, 1)[0] ?? ""
  }
  const replanned = planPackage(one, runner, { ...values, ...given })
  return isDeepStrictEqual(replanned.server.args, args) ? given : undefined
}

/** Returns the bundle (MCPB) from which an entry is installed, or undefined if svc runs the entry in another way. */
export function bundleOf({ packages }: RegistryEntry, type?: string): Package | undefined {
  const first = packages.find(
    (one) => (type === undefined || one.registryType === type) && (isBundle(one) || runnerOf(one) !== undefined),
  )
  return first !== undefined && isBundle(first) ? first : undefined
}

/** Whether an address is safe to download from: https, or http on this machine, so that no attacker can change the data. */
export const isSafeAddress = (address: string): boolean => {
  const { protocol, hostname } = URL.parse(address) ?? {}
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname ?? ""))
}

/** Returns the remote of an entry; a remote with the deprecated HTTP+SSE only if there is no other. */
export const remoteOf = ({ remotes }: RegistryEntry): PackageTransport | undefined =>
  remotes.find(({ type }) => type !== "sse") ?? remotes[0]

/** Returns the names of secret inputs that become part of an argument, an address or a longer value. */
export function deepSecrets({ packages, remotes }: RegistryEntry): ReadonlySet<string> {
  const names = new Set<string>()
  const addSecret = (name: string | undefined, { isSecret }: Input) => {
    if (isSecret === true && name !== undefined) names.add(name)
  }
  const addVariables = ({ variables = {} }: Pick<Input, "variables">) => {
    for (const [name, input] of Object.entries(variables)) addSecret(name, input)
  }
  for (const one of packages) {
    for (const argument of [...one.runtimeArguments, ...one.packageArguments]) {
      addSecret(argument.type === "named" ? argument.name : (argument.valueHint ?? argument.name), argument)
      addVariables(argument)
    }
    for (const input of one.environmentVariables) addVariables(input)
  }
  for (const remote of remotes) {
    addVariables(remote)
    for (const header of remote.headers) addVariables(header)
  }
  return names
}

/** Escapes `$`, which begins a reference in mcp.json. */
export const escapeText = (text: string): string => text.replaceAll("$", "$$$$")

/** Fills inputs with given values, and collects the missing, optional and secret inputs. */
export function createRequestedInputs(values: InputValues) {
  const missing: RequestedInput[] = []
  const optional: RequestedInput[] = []
  const secret = new Set<string>()
  const requested = (name: string, input: Input): RequestedInput => ({
    name,
    secret: input.isSecret === true,
    ...(input.description === undefined || input.description === "" ? {} : { description: input.description }),
    ...(input.choices === undefined ? {} : { choices: input.choices }),
    ...(input.default === undefined ? {} : { default: input.default }),
  })
  const given = (name: string): string | undefined => (Object.hasOwn(values, name) ? values[name] : undefined)
  /** Whether a value is one of the choices. The value of a reference is unknown, and accepted. */
  const fits = (value: string, { choices = [], isSecret }: Input): boolean =>
    choices.length === 0 || isSecret === true || value.includes("$") || choices.includes(value)
  /** Fills the placeholders of a fixed value; undefined if one is missing. */
  const text = ({ value, variables = {} }: Pick<Input, "value" | "variables">): string | undefined => {
    if (value === undefined) return undefined
    let isComplete = true
    const filled = escapeText(value).replace(/\{([\w.-]+)\}/g, (placeholder, name: string) => {
      const input = Object.hasOwn(variables, name) ? variables[name] : undefined
      if (input === undefined) return placeholder
      const found = given(name) ?? (input.default === undefined ? undefined : escapeText(input.default))
      if (found !== undefined) return found
      isComplete = false
      if (!missing.some((one) => one.name === name)) missing.push(requested(name, input))
      return ""
    })
    return isComplete ? filled : undefined
  }
  /** Returns the value of an input: the given, fixed or default value. Records an input that still needs a value. */
  const take = (name: string, input: Input, accepts: (value: string) => boolean = () => true): string | undefined => {
    const own = given(name)
    if (own !== undefined) {
      if (fits(own, input) && accepts(own)) return own
      missing.push(requested(name, input))
      return undefined
    }
    if (input.value !== undefined) return text(input)
    const { default: preset = "", isRequired = false } = input
    const needed = isRequired && preset === "" ? missing : optional
    needed.push(requested(name, input))
    return preset === "" ? undefined : escapeText(preset)
  }
  return {
    missing,
    optional,
    secret,
    text,
    take,
    argument(argument: Argument): readonly string[] {
      const { type, name, valueHint } = argument
      if (type === "positional") {
        const value = take(valueHint ?? name ?? "argument", argument)
        return value === undefined ? [] : [value]
      }
      const flag = name ?? ""
      const takes = argument.value !== undefined || argument.default !== undefined || given(flag) !== undefined
      // A flag without a value is a switch.
      if (!takes && argument.isRequired !== true) return []
      const value = take(flag, argument)
      if (value === undefined) return []
      const [bare, ownValue] = flagOf(flag)
      // Many entries repeat the name of a switch as its value.
      const text = value === escapeText(flag) ? ownValue : value
      return text === undefined || text === "" ? [bare] : [bare, text]
    },
    named(inputs: readonly NamedInput[]): Record<string, string> {
      const found: Record<string, string> = {}
      for (const input of inputs) {
        const value = take(input.name, input)
        if (input.isSecret === true) secret.add(input.name)
        if (value !== undefined) found[input.name] = value
      }
      return found
    },
  }
}

// ---

/** Returns the first package of an entry that svc can run. */
function packageOf(
  { packages }: RegistryEntry,
  type: string | undefined,
  has: (command: string) => boolean = () => true,
): { one: Package; runner: PackageRunner } | undefined {
  for (const one of packages) {
    const runner = type === undefined || one.registryType === type ? runnerOf(one) : undefined
    if (runner !== undefined && has(runner.command)) return { one, runner }
  }
  return undefined
}

/** Whether a package is a bundle that svc can verify, by its hash. */
const isBundle = ({ registryType, identifier, fileSha256 = "", transport }: Package): boolean =>
  registryType === "mcpb" &&
  transport.type === "stdio" &&
  isSafeAddress(identifier) &&
  /^[\da-f]{64}$/i.test(fileSha256)

/** Splits a name of an entry that contains a flag and its value. */
const flagOf = (name: string): readonly [flag: string, value: string | undefined] => {
  const escaped = escapeText(name)
  const [, flag = escaped, value] = /^(-[^\s=]*)\s([^\n\r]*)$/.exec(escaped) ?? []
  return [flag, value?.trimStart()]
}
const bareFlag = (name: string): string => flagOf(name)[0]

function planPackage(one: Package, runner: PackageRunner, values: InputValues): Installable {
  const inputs = createRequestedInputs(values)
  const base = baseOf(one, runner)
  const source = base === undefined ? [] : (runner.source?.(escapeText(base)) ?? [])
  const runtime = [...source, ...one.runtimeArguments.flatMap((argument) => inputs.argument(argument))]
  const args = one.packageArguments.flatMap((argument) => inputs.argument(argument))
  const env = inputs.named(one.environmentVariables)
  const spec = specOf(one, runner)
  return {
    server: {
      command: runner.command,
      args: [...runner.args(runtime, spec, Object.keys(env)), ...args],
      ...(Object.keys(env).length === 0 ? {} : { env }),
    },
    secret: inputs.secret,
    missing: inputs.missing,
    optional: inputs.optional,
    package: spec,
    type: one.registryType,
  }
}

/** Header fields that belong to a connection, to its messages or to MCP. RFC 9110, 7.6.1; basic: Streamable HTTP. */
const RESERVED_HEADER =
  /^(?:host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept|proxy-.*|mcp-.*|last-event-id)$/i

/** Returns why svc refuses a header of an entry, or undefined. */
function headerProblem({ name }: NamedInput): string | undefined {
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return "it names an invalid header"
  return RESERVED_HEADER.test(name) ? `it sets the header ${name}, which only svc and HTTP may set` : undefined
}

function planRemote(remote: PackageTransport, values: InputValues): Installable | { readonly reason: string } {
  const inputs = createRequestedInputs(values)
  const url = inputs.text({ value: remote.url, variables: remote.variables }) ?? ""
  const headers = inputs.named(remote.headers)
  const problem = remote.headers.map(headerProblem).find((reason) => reason !== undefined)
  if (problem !== undefined) return { reason: problem }
  const { username = "", password = "" } = URL.parse(url) ?? {}
  if (username !== "" || password !== "") return { reason: "its address contains a user name or a password" }
  return {
    server: {
      type: remote.type === "sse" ? "sse" : "streamableHttp",
      url,
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
    },
    secret: inputs.secret,
    missing: inputs.missing,
    optional: inputs.optional,
    package: undefined,
    type: "remote",
  }
}
