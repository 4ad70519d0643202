/**
 * A bundle's manifest.json (MCPB 0.1 to 0.4), read tolerantly, and the command that runs the unpacked bundle with the given
 * values. Its text is data, like a registry's: it never becomes a reference.
 */
import * as z from "zod"
import { isSecretName } from "../../lib/secret-names.ts"
import { cleanText, type Input, type Package } from "./entry.ts"
import { createRequestedInputs, escapeText, type InputValues, type Installable } from "./install-plan.ts"

export type BundleManifest = z.infer<typeof manifestJson>

/** The machine that a bundle will run on. */
export type Machine = {
  /** As in `process.platform`. */
  readonly platform: string
  readonly home: string
  /** Whether the machine has a program of this name. */
  has(command: string): boolean
}

/** A bundle and its folder. */
export type UnpackedBundle = {
  readonly manifest: BundleManifest
  /** The package of the registry's entry. */
  readonly from: Package
  /** The folder of the unpacked bundle. */
  readonly root: string
  readonly machine: Machine
}

/** Parses a manifest. Throws an Error that says what is wrong. */
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
  throw new Error(`its manifest.json is invalid at ${issue?.path.join(".") || "the top level"}: ${issue?.message}`)
}

/** Whether the value of an option is secret. Many manifests forget to mark secrets, so names count too. */
export function isSensitive({ user_config: options }: BundleManifest, name: string): boolean {
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  return option?.sensitive === true || ((option?.type ?? "string") === "string" && isSecretName(name))
}

/** Whether a file is the program of a binary bundle. Not every archive marks executable files. */
export const isProgram = (
  { server: { type, entry_point: entry, mcp_config: config } }: BundleManifest,
  path: string,
): boolean =>
  type === "binary" &&
  [entry, config?.command, ...Object.values(config?.platform_overrides ?? {}).map(({ command }) => command)].some(
    (one) => one !== undefined && `/${one}`.endsWith(`/${path}`),
  )

/** Returns how to run a bundle, or the reason why svc cannot. */
export function planBundle(
  { manifest, from, root, machine }: UnpackedBundle,
  given: InputValues,
): Installable | { readonly reason: string } {
  const { platform, has } = machine
  const { user_config: options, compatibility } = manifest
  const { platforms } = compatibility
  if (platforms !== undefined && !platforms.includes(platform))
    return { reason: `its bundle runs on ${platforms.join(", ")}, not on ${platform}` }
  const config = configOf(manifest, platform)
  if (config === undefined) return { reason: "the manifest of its bundle has no command to run" }
  // An empty text means no value.
  const values = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""))
  const inputs = createRequestedInputs(values)
  const separator = platform === "win32" ? "\\" : "/"
  const folders = foldersOf(root, machine.home, separator)
  const withFolders = (text: string) =>
    text.replace(/\$\{([^{}]+)\}/g, (whole, name: string) => folders.get(name) ?? whole)
  const chosen = new Map<string, readonly string[] | undefined>()
  const choose = (name: string, option: Option): readonly string[] | undefined => {
    if (!chosen.has(name)) {
      const input = { ...inputOf(option, withFolders), isSecret: isSensitive(manifest, name) }
      const value = inputs.take(name, input, (text) => fits(text, option))
      chosen.set(name, value === undefined ? undefined : valuesOf(value, option))
    }
    return chosen.get(name)
  }
  const optionOf = (name: string): readonly [string, Option] | undefined => {
    const [, key = ""] = /^user_config\.(.+)$/.exec(name) ?? []
    const option = Object.hasOwn(options, key) ? options[key] : undefined
    return option === undefined ? undefined : [key, option]
  }
  /** Fills the placeholders of a text; undefined if one has no value. */
  const fill = (text: string): string | undefined => {
    let isComplete = true
    const filled = escapeText(text).replace(/\$\$\{([^{}]+)\}/g, (placeholder, name: string) => {
      const known = folders.get(name)
      if (known !== undefined) return escapeText(known)
      const option = optionOf(name)
      if (option === undefined) return placeholder
      const value = choose(...option)
      if (value === undefined) isComplete = false
      return value?.join(platform === "win32" ? ";" : ":") ?? ""
    })
    return isComplete ? filled : undefined
  }
  const args = config.args.flatMap((text) => {
    const option = optionOf(/^\$\{([^{}]+)\}$/.exec(text)?.[1] ?? "")
    return option === undefined ? (fill(text) ?? []) : (choose(...option) ?? [])
  })
  // A value given for a variable itself replaces the manifest's.
  const filledEnv = Object.entries(config.env).flatMap(([name, text]) => {
    const value = Object.hasOwn(values, name) ? values[name] : fill(text)
    return value === undefined ? [] : [[name, value] as const]
  })
  const others = inputs.named(from.environmentVariables.filter(({ name }) => !Object.hasOwn(config.env, name)))
  const env = { ...others, ...Object.fromEntries(filledEnv) }
  const command = commandIn(fill(config.command) ?? "", manifest, escapeText(root), machine)
  if (!/[\\/]/.test(command) && !has(command))
    return { reason: `its bundle needs ${command}, which is not in the PATH of svc: install ${providerOf(command)}` }
  return {
    server: {
      command,
      args: [...args, ...from.packageArguments.flatMap((argument) => inputs.argument(argument))],
      // Many manifests name files relative to the bundle.
      cwd: escapeText(root),
      ...(Object.keys(env).length === 0 ? {} : { env }),
    },
    secret: inputs.secret,
    missing: inputs.missing,
    optional: inputs.optional,
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

/** The command of a bundle, with placeholders. */
type Config = {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Returns the command for a platform. A bundle for uv may have only an entry point. */
function configOf(
  { server: { type, entry_point: entry, mcp_config: config } }: BundleManifest,
  platform: string,
): Config | undefined {
  if (config === undefined)
    return type === "uv" && entry !== ""
      ? { command: "uv", args: ["run", "--directory", "${__dirname}", entry], env: {} }
      : undefined
  const { platform_overrides: overrides, ...usual } = config
  const override = Object.hasOwn(overrides, platform) ? overrides[platform] : undefined
  return {
    command: override?.command ?? usual.command,
    args: override?.args ?? usual.args,
    env: override?.env ?? usual.env,
  }
}

const foldersOf = (root: string, home: string, separator: string): ReadonlyMap<string, string> =>
  new Map([
    ["__dirname", root],
    ["HOME", home],
    ...["Desktop", "Documents", "Downloads"].map((name) => [name.toUpperCase(), `${home}${separator}${name}`] as const),
    ["pathSeparator", separator],
    ["/", separator],
  ])

/** Returns an option as an input of server.json. */
function inputOf(
  { type, title, description, required, default: usual, multiple, min, max }: Option,
  withFolders: (text: string) => string,
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
    ...defaultOf(usual, withFolders),
  }
}

/** Returns the default of an input; an empty list means none. */
function defaultOf(value: Option["default"], withFolders: (text: string) => string): Pick<Input, "default"> {
  if (!Array.isArray(value)) return value === undefined ? {} : { default: withFolders(value) }
  return value.length === 0 ? {} : { default: JSON.stringify(value.map(withFolders)) }
}

/** Whether an option accepts a value. The value of a reference is unknown, and accepted. */
function fits(
  value: string,
  { type, required, multiple, sensitive, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY }: Option,
): boolean {
  if (required && multiple && valuesOf(value, { multiple }).length === 0) return false
  if (type !== "number" || sensitive || value.includes("$")) return true
  const number = Number(value)
  return Number.isFinite(number) && number >= min && number <= max
}

/** Returns the values of an option; for a `multiple` option, the elements of a JSON array, or one text. */
function valuesOf(value: string, { multiple }: Pick<Option, "multiple">): readonly string[] {
  if (!multiple) return [value]
  try {
    const parsed: unknown = JSON.parse(value)
    if (Array.isArray(parsed)) return parsed.map(String)
  } catch {
    // Not JSON: one text.
  }
  return [value]
}

/** Returns the program: a path inside the bundle, an absolute path, or a name to find in the PATH. */
function commandIn(command: string, { server }: BundleManifest, root: string, { platform, has }: Machine): string {
  const windows = platform === "win32"
  const isAbsolute = /^(?:[\\/]|[A-Za-z]:)/.test(command)
  if (isAbsolute || /[\\/]/.test(command) || command === server.entry_point) {
    const path = isAbsolute ? command : `${root}${windows ? "\\" : "/"}${command.replace(/^\.[\\/]/, "")}`
    return windows && server.type === "binary" && !/\.\w+$/.test(path) ? `${path}.exe` : path
  }
  return command === "python" && !has("python") && has("python3") ? "python3" : command
}

/** Returns what to install for a command. */
function providerOf(command: string): string {
  if (/^(?:node|npx)$/.test(command)) return "Node.js"
  return /^python/.test(command) ? "Python" : command
}
