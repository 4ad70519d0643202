/**
 * A bundle's manifest.json (MCPB 0.1 to 0.4), read tolerantly, and what comes of it: the command that runs the bundle where
 * it is unpacked, with the values that were given. Its text is data as a registry's is: it never becomes a reference.
 */
import * as z from "zod"
import { isSecretName } from "../lib/secret-names.ts"
import { cleanText, type Input, type Package } from "./entry.ts"
import { createRequestedInputs, escapeText, type InputValues, type Installable } from "./install-plan.ts"

export type BundleManifest = z.infer<typeof manifestJson>

/** The machine that a bundle is to run on. */
export type Machine = {
  /** As Node.js calls it. */
  readonly platform: string
  readonly home: string
  /** Whether there is a program of this name. */
  has(command: string): boolean
}

/** A bundle and where it is to be. */
export type UnpackedBundle = {
  readonly manifest: BundleManifest
  /** The package of its registry's entry. */
  readonly from: Package
  /** The folder that it is unpacked in. */
  readonly root: string
  readonly machine: Machine
}

/** Throws an Error that says what is wrong with it. */
export function readManifest(text: string): BundleManifest {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error("its manifest.json is not JSON")
  }
  const parsed = manifestJson.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new Error(`its manifest.json is wrong at ${issue?.path.join(".") || "its top"}: ${issue?.message}`)
}

/** Whether a value that is given under a name is secret: many a manifest forgets to say so. */
export function isSensitive({ user_config: options }: BundleManifest, name: string): boolean {
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  return option?.sensitive === true || ((option?.type ?? "string") === "string" && isSecretName(name))
}

/** Whether a file is what a bundle of a program runs: not every archive says what is executable. */
export const isProgram = (
  { server: { type, entry_point: entry, mcp_config: config } }: BundleManifest,
  path: string,
): boolean =>
  type === "binary" &&
  [entry, config?.command, ...Object.values(config?.platform_overrides ?? {}).map(({ command }) => command)].some(
    (one) => one !== undefined && `/${one}`.endsWith(`/${path}`),
  )

/** How a bundle is run, or why it cannot be. */
export function planBundle(
  { manifest, from, root, machine }: UnpackedBundle,
  given: InputValues,
): Installable | { readonly reason: string } {
  const { platform, has } = machine
  const { user_config: options, compatibility } = manifest
  const { platforms } = compatibility
  if (platforms !== undefined && !platforms.includes(platform))
    return { reason: `its bundle runs on ${platforms.join(", ")} and not on ${platform}` }
  const config = configOf(manifest, platform)
  if (config === undefined) return { reason: "the manifest of its bundle does not say how it is run" }
  // An empty text is no value.
  const values = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""))
  const wants = createRequestedInputs(values)
  const separator = platform === "win32" ? "\\" : "/"
  const places = placesOf(root, machine.home, separator)
  const place = (text: string) => text.replace(/\$\{([^{}]+)\}/g, (whole, name: string) => places.get(name) ?? whole)
  const chosen = new Map<string, readonly string[] | undefined>()
  const choose = (name: string, option: Option): readonly string[] | undefined => {
    if (!chosen.has(name)) {
      const input = { ...inputOf(option, place), isSecret: isSensitive(manifest, name) }
      const value = wants.take(name, input, (text) => fits(text, option))
      chosen.set(name, value === undefined ? undefined : option.multiple ? several(value) : [value])
    }
    return chosen.get(name)
  }
  const optionOf = (name: string): readonly [string, Option] | undefined => {
    const [, key = ""] = /^user_config\.(.+)$/.exec(name) ?? []
    const option = Object.hasOwn(options, key) ? options[key] : undefined
    return option === undefined ? undefined : [key, option]
  }
  /** Undefined where a value in it is not given. */
  const fill = (text: string): string | undefined => {
    let whole = true
    const filled = escapeText(text).replace(/\$\$\{([^{}]+)\}/g, (as, name: string) => {
      const known = places.get(name)
      if (known !== undefined) return escapeText(known)
      const option = optionOf(name)
      if (option === undefined) return as
      const value = choose(...option)
      if (value === undefined) whole = false
      return value?.join(platform === "win32" ? ";" : ":") ?? ""
    })
    return whole ? filled : undefined
  }
  const args = config.args.flatMap((text) => {
    const option = optionOf(/^\$\{([^{}]+)\}$/.exec(text)?.[1] ?? "")
    return option === undefined ? (fill(text) ?? []) : (choose(...option) ?? [])
  })
  // A variable that is given by its own name need not be made of others.
  const made = Object.entries(config.env).flatMap(([name, text]) => {
    const value = Object.hasOwn(values, name) ? values[name] : fill(text)
    return value === undefined ? [] : [[name, value] as const]
  })
  const others = wants.named(from.environmentVariables.filter(({ name }) => !Object.hasOwn(config.env, name)))
  const env = { ...others, ...Object.fromEntries(made) }
  const command = commandIn(fill(config.command) ?? "", manifest, escapeText(root), machine)
  if (!/[\\/]/.test(command) && !has(command))
    return { reason: `its bundle needs ${command}, which svc does not find in its PATH: install ${bringerOf(command)}` }
  return {
    server: {
      command,
      args: [...args, ...from.packageArguments.flatMap((argument) => wants.argument(argument))],
      // Many a manifest names files by where they are in the bundle.
      cwd: escapeText(root),
      ...(Object.keys(env).length === 0 ? {} : { env }),
    },
    secret: wants.secret,
    missing: wants.missing,
    optional: wants.optional,
    package: from.identifier,
    type: from.registryType,
  }
}

// ---

const text = z.string().transform(cleanText)
const scalar = z.union([z.string(), z.number(), z.boolean()]).transform((value) => cleanText(String(value)))
const launch = { command: text, args: z.array(text), env: z.record(text, scalar) }
const option = z.object({
  type: text.default("string"),
  title: text.default(""),
  description: text.default(""),
  required: z.boolean().default(false),
  default: z
    .union([scalar, z.array(text)])
    .optional()
    .catch(undefined),
  multiple: z.boolean().default(false),
  sensitive: z.boolean().default(false),
  min: z.number().optional(),
  max: z.number().optional(),
})
type Option = z.infer<typeof option>

const VERSIONS = ["0.1", "0.2", "0.3", "0.4"] as const
const manifestJson = z
  .object({
    manifest_version: z.string().optional(),
    dxt_version: z.string().optional(),
    server: z.object({
      type: z.enum(["node", "python", "binary", "uv"]),
      entry_point: text.default(""),
      mcp_config: z
        .object({
          ...launch,
          args: launch.args.default([]),
          env: launch.env.default({}),
          platform_overrides: z.record(z.string(), z.object(launch).partial()).default({}),
        })
        .optional(),
    }),
    compatibility: z.object({ platforms: z.array(text).optional() }).default({}),
    user_config: z.record(z.string().regex(/^[\w.-]{1,100}$/), option).default({}),
  })
  .refine(({ manifest_version: version, dxt_version: old }) => VERSIONS.some((one) => one === (version ?? old)), {
    path: ["manifest_version"],
    message: `must be one of ${VERSIONS.join(", ")}`,
  })

type Config = {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** What is run here. A bundle for uv may leave that to whoever runs it. */
function configOf(
  { server: { type, entry_point: entry, mcp_config: config } }: BundleManifest,
  platform: string,
): Config | undefined {
  if (config === undefined)
    return type === "uv" && entry !== ""
      ? { command: "uv", args: ["run", "--directory", "${__dirname}", entry], env: {} }
      : undefined
  const { platform_overrides: overrides, ...usual } = config
  const own = Object.hasOwn(overrides, platform) ? overrides[platform] : undefined
  return { command: own?.command ?? usual.command, args: own?.args ?? usual.args, env: own?.env ?? usual.env }
}

const placesOf = (root: string, home: string, separator: string): ReadonlyMap<string, string> =>
  new Map([
    ["__dirname", root],
    ["HOME", home],
    ...["Desktop", "Documents", "Downloads"].map((name) => [name.toUpperCase(), `${home}${separator}${name}`] as const),
    ["pathSeparator", separator],
    ["/", separator],
  ])

/** One of its options in the words of server.json. */
function inputOf(
  { type, title, description, required, default: usual, multiple, min, max }: Option,
  place: (text: string) => string,
): Input {
  const bounds = [...(min === undefined ? [] : [`at least ${min}`]), ...(max === undefined ? [] : [`at most ${max}`])]
  const about = [
    ...[title, description].filter((one) => one !== ""),
    ...(type === "number" ? [["a number", ...bounds].join(", ")] : []),
    ...(multiple ? ["several as a JSON array"] : []),
  ]
  return {
    description: [...new Set(about)].join("; "),
    isRequired: required,
    ...(type === "boolean" ? { choices: ["true", "false"] } : {}),
    // None of several is no value.
    ...(usual === undefined || (Array.isArray(usual) && usual.length === 0)
      ? {}
      : { default: Array.isArray(usual) ? JSON.stringify(usual.map(place)) : place(usual) }),
  }
}

/** Whether a value is one that an option may have; what a reference comes to is not known. */
function fits(
  value: string,
  { type, required, multiple, sensitive, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }: Option,
): boolean {
  if (required && multiple && several(value).length === 0) return false
  if (type !== "number" || sensitive || value.includes("$")) return true
  const number = Number(value)
  return Number.isFinite(number) && number >= min && number <= max
}

/** A JSON array of texts, or one text. */
function several(value: string): readonly string[] {
  try {
    const parsed: unknown = JSON.parse(value)
    if (Array.isArray(parsed)) return parsed.map(String)
  } catch {
    // One text.
  }
  return [value]
}

/** The program: one of the bundle's own where it is one, or a name that is looked for. */
function commandIn(command: string, { server }: BundleManifest, root: string, { platform, has }: Machine): string {
  const windows = platform === "win32"
  const own = /^(?:[\\/]|[A-Za-z]:)/.test(command)
    ? command
    : /[\\/]/.test(command) || command === server.entry_point
      ? `${root}${windows ? "\\" : "/"}${command.replace(/^\.[\\/]/, "")}`
      : undefined
  if (own !== undefined) return windows && server.type === "binary" && !/\.\w+$/.test(own) ? `${own}.exe` : own
  return command === "python" && !has("python") && has("python3") ? "python3" : command
}

const bringerOf = (command: string): string =>
  /^(?:node|npx)$/.test(command) ? "Node.js" : /^python/.test(command) ? "Python" : command
