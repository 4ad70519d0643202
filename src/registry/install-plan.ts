/**
 * From server.json to a server in mcp.json: the command that runs a package or the address of a remote, with the values
 * that were given. What must be given and was not is named. Registry text is escaped: it never becomes a reference.
 */

import { isDeepStrictEqual } from "node:util"
import { isLoopback } from "../lib/address.ts"
import type { Params } from "../wire/message.ts"
import type { Argument, Input, NamedInput, Package, PackageTransport, RegistryEntry } from "./entry.ts"
import { baseOf, type PackageRunner, runnerOf, specOf } from "./package-runner.ts"

/** A value that a server takes. */
export type RequestedInput = {
  readonly name: string
  readonly description?: string
  readonly secret: boolean
  readonly choices?: readonly string[]
  readonly default?: string
}

export type Installable = {
  readonly server: Params
  /** Names in `env` and `headers` whose values are secret. */
  readonly secret: ReadonlySet<string>
  readonly missing: readonly RequestedInput[]
  /** What may be given too. */
  readonly optional: readonly RequestedInput[]
  /** The package with its version, as its runner is told; undefined for a remote. */
  readonly package: string | undefined
  /** npm, pypi, oci …, mcpb, or remote. */
  readonly type: string
}

/** Values in mcp.json's own syntax, by name. */
export type InputValues = Readonly<Record<string, string>>

/**
 * How an entry is run, or why it cannot be. `type` chooses among its packages and remotes; where it does not, what this
 * machine has the command for (`has`) comes before what it would still need.
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
  const wanting = packageOf(entry, type)
  if (wanting !== undefined) return planPackage(wanting.one, wanting.runner, values)
  const offered = [
    ...new Set(
      entry.packages.map(({ registryType, registryBaseUrl, transport }) => {
        const from = registryBaseUrl === undefined ? "" : ` from ${registryBaseUrl}`
        return `${registryType}${from} over ${transport.type}`
      }),
    ),
  ]
  return {
    reason:
      offered.length === 0
        ? "its entry names neither a package nor a remote address"
        : `its entry offers it as ${offered.join(", ")}${type === undefined ? "" : ` and not as ${type}`}; svc runs npm, pypi, oci and nuget packages over stdio, mcpb bundles whose entry has an https address and a fileSha256, and remotes`,
  }
}

/**
 * The values that stand in the arguments of a server that was installed from an entry, where they are not the entry's own.
 * Undefined where the arguments are others than it would have with any.
 */
export function argumentValues(entry: RegistryEntry, args: readonly unknown[], values: InputValues, type?: string) {
  const found = packageOf(entry, type)
  if (found === undefined) return undefined
  const { one, runner } = found
  const rest = args.slice(args.indexOf(specOf(one, runner)) + 1).map(String)
  const flags = one.packageArguments.flatMap(({ type, name }) => (type === "named" ? [bareFlag(name ?? "")] : []))
  const own: Record<string, string> = {}
  for (const argument of one.packageArguments) {
    const { type, name = "", valueHint } = argument
    const texts = createRequestedInputs({}).argument(argument)
    const [next] = rest
    if (texts.length > 0 && texts.every((text, at) => text === rest[at])) rest.splice(0, texts.length)
    else if (type === "named" && next === bareFlag(name)) own[name] = rest.splice(0, 2)[1] ?? ""
    else if (type === "positional" && next !== undefined && !flags.includes(next))
      own[valueHint ?? (name || "argument")] = rest.splice(0, 1)[0] ?? ""
  }
  const again = planPackage(one, runner, { ...values, ...own })
  return isDeepStrictEqual(again.server.args, args) ? own : undefined
}

/** The bundle (MCPB) that an entry is installed from; undefined where it is run otherwise. */
export function bundleOf({ packages }: RegistryEntry, type?: string): Package | undefined {
  const first = packages.find(
    (one) => (type === undefined || one.registryType === type) && (isBundle(one) || runnerOf(one) !== undefined),
  )
  return first !== undefined && isBundle(first) ? first : undefined
}

/** Where something may be fetched from: nobody must be able to change it on its way. */
export const isSafeAddress = (address: string): boolean => {
  const { protocol, hostname } = URL.parse(address) ?? {}
  return protocol === "https:" || (protocol === "http:" && isLoopback(hostname ?? ""))
}

/** The remote that an entry is reached at: HTTP+SSE is deprecated, and only where there is nothing else. */
export const remoteOf = ({ remotes }: RegistryEntry): PackageTransport | undefined =>
  remotes.find(({ type }) => type !== "sse") ?? remotes[0]

/** Names of inputs that are secret and come to stand in an argument, an address or a part of a value. */
export function deepSecrets({ packages, remotes }: RegistryEntry): ReadonlySet<string> {
  const names = new Set<string>()
  const look = (name: string | undefined, { isSecret }: Input) => {
    if (isSecret === true && name !== undefined) names.add(name)
  }
  const within = ({ variables = {} }: Pick<Input, "variables">) => {
    for (const [name, input] of Object.entries(variables)) look(name, input)
  }
  for (const one of packages) {
    for (const argument of [...one.runtimeArguments, ...one.packageArguments]) {
      look(argument.type === "named" ? argument.name : (argument.valueHint ?? argument.name), argument)
      within(argument)
    }
    for (const input of one.environmentVariables) within(input)
  }
  for (const remote of remotes) {
    within(remote)
    for (const header of remote.headers) within(header)
  }
  return names
}

/** `$` begins a reference in mcp.json; doubled it is itself. */
export const escapeText = (text: string): string => text.replaceAll("$", "$$$$")

/** Collects, while values are put in, what is missing and what is secret. */
export function createRequestedInputs(values: InputValues) {
  const missing: RequestedInput[] = []
  const optional: RequestedInput[] = []
  const secret = new Set<string>()
  const wanted = (name: string, input: Input): RequestedInput => ({
    name,
    secret: input.isSecret === true,
    ...(input.description === undefined || input.description === "" ? {} : { description: input.description }),
    ...(input.choices === undefined ? {} : { choices: input.choices }),
    ...(input.default === undefined ? {} : { default: input.default }),
  })
  const given = (name: string): string | undefined => (Object.hasOwn(values, name) ? values[name] : undefined)
  /** Of choices it must be one; what a reference comes to is not known. */
  const fits = (value: string, { choices = [], isSecret }: Input): boolean =>
    choices.length === 0 || isSecret === true || value.includes("$") || choices.includes(value)
  /** Puts variables into a fixed value; undefined where one is missing. */
  const text = ({ value, variables = {} }: Pick<Input, "value" | "variables">): string | undefined => {
    if (value === undefined) return undefined
    let whole = true
    const filled = escapeText(value).replace(/\{([\w.-]+)\}/g, (placeholder, name: string) => {
      const input = Object.hasOwn(variables, name) ? variables[name] : undefined
      if (input === undefined) return placeholder
      const found = given(name) ?? (input.default === undefined ? undefined : escapeText(input.default))
      if (found !== undefined) return found
      whole = false
      if (!missing.some((one) => one.name === name)) missing.push(wanted(name, input))
      return ""
    })
    return whole ? filled : undefined
  }
  /** The value of an input under a name: fixed, given, or its default. */
  const take = (name: string, input: Input, isOne: (value: string) => boolean = () => true): string | undefined => {
    const own = given(name)
    if (own !== undefined && fits(own, input) && isOne(own)) return own
    if (own !== undefined) {
      missing.push(wanted(name, input))
      return undefined
    }
    const fixed = text(input)
    if (fixed !== undefined || input.value !== undefined) return fixed
    if (input.default !== undefined && input.default !== "") {
      optional.push(wanted(name, input))
      return escapeText(input.default)
    }
    ;(input.isRequired === true ? missing : optional).push(wanted(name, input))
    return undefined
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
      const [bare, own] = flagOf(flag)
      // A switch is often named twice.
      const taken = value === escapeText(flag) ? own : value
      return taken === undefined || taken === "" ? [bare] : [bare, taken]
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

/** The first package of an entry that svc can run. */
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

/** A bundle without a hash might be anybody's. */
const isBundle = ({ registryType, identifier, fileSha256 = "", transport }: Package): boolean =>
  registryType === "mcpb" &&
  transport.type === "stdio" &&
  isSafeAddress(identifier) &&
  /^[\da-f]{64}$/i.test(fileSha256)

/** Many an entry names a flag together with its value. */
const flagOf = (name: string): readonly [flag: string, value: string | undefined] => {
  const shown = escapeText(name)
  const [, flag = shown, value] = /^(-[^\s=]*)\s+(.*)$/.exec(shown) ?? []
  return [flag, value]
}
const bareFlag = (name: string): string => flagOf(name)[0]

function planPackage(one: Package, runner: PackageRunner, values: InputValues): Installable {
  const wants = createRequestedInputs(values)
  const base = baseOf(one, runner)
  const source = base === undefined ? [] : (runner.source?.(escapeText(base)) ?? [])
  const runtime = [...source, ...one.runtimeArguments.flatMap((argument) => wants.argument(argument))]
  const args = one.packageArguments.flatMap((argument) => wants.argument(argument))
  const env = wants.named(one.environmentVariables)
  const spec = specOf(one, runner)
  return {
    server: {
      command: runner.command,
      args: [...runner.args(runtime, spec, Object.keys(env)), ...args],
      ...(Object.keys(env).length === 0 ? {} : { env }),
    },
    secret: wants.secret,
    missing: wants.missing,
    optional: wants.optional,
    package: spec,
    type: one.registryType,
  }
}

function planRemote(remote: PackageTransport, values: InputValues): Installable {
  const wants = createRequestedInputs(values)
  const url = wants.text({ value: remote.url, variables: remote.variables }) ?? ""
  const headers = wants.named(remote.headers)
  return {
    server: {
      type: remote.type === "sse" ? "sse" : "streamableHttp",
      url,
      ...(Object.keys(headers).length === 0 ? {} : { headers }),
    },
    secret: wants.secret,
    missing: wants.missing,
    optional: wants.optional,
    package: undefined,
    type: "remote",
  }
}
