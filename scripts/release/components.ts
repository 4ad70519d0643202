/** What is compiled into the program: the packages of bun.lock that svc depends on at run time, and Bun. */
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "jsonc-parser"
import { isObject, type Params } from "../../src/wire/message.ts"

export type Component = {
  readonly name: string
  readonly version: string
  /** As SPDX writes it. */
  readonly license: string
  /** The text of the license, unless the package has none. */
  readonly text: string | undefined
  /** Subresource integrity of the package: `sha512-` and base64. */
  readonly integrity: string
  /** Names and versions of the packages that it depends on. */
  readonly dependencies: readonly string[]
}

/** Returns `name@version`, which identifies a component. */
export const idOf = ({ name, version }: Pick<Component, "name" | "version">): string => `${name}@${version}`

/** Returns the components of a checkout with its node_modules, sorted by name. Throws if one of them is not installed. */
export function componentsOf(root: string): readonly Component[] {
  const lock: unknown = parse(readFileSync(join(root, "bun.lock"), "utf8"), [], { allowTrailingComma: true })
  const packages = record(record(lock).packages)
  const found = new Map<string, Component>()
  const visit = (key: string): void => {
    const { id, integrity, names } = entryOf(packages[key])
    if (found.has(id)) return
    const keys = names.map((name) => resolve(packages, key, name))
    const at = id.lastIndexOf("@")
    found.set(id, {
      name: id.slice(0, at),
      version: id.slice(at + 1),
      integrity,
      ...licenseOf(join(root, "node_modules", chainOf(key).join("/node_modules/"))),
      dependencies: keys.map((dependency) => entryOf(packages[dependency]).id).sort(),
    })
    for (const dependency of keys) visit(dependency)
  }
  for (const name of Object.keys(record(record(record(record(lock).workspaces)[""]).dependencies))) visit(name)
  return [...found.values()].sort((one, other) => (idOf(one) < idOf(other) ? -1 : 1))
}

/** Returns the notices that the licenses of the components require. `bun` is the version of Bun. */
export function noticesOf(components: readonly Component[], bun: string): string {
  const rule = "-".repeat(80)
  const notes = components.map((component) => {
    const { license, text } = component
    return `${rule}\n${idOf(component)} (${license})\n\n${text ?? `The package has no text of its license, ${license}.`}`
  })
  const runtime = `${rule}\nBun ${bun} (MIT), with JavaScriptCore (LGPL-2.0-or-later) and other libraries\n\nTheir licenses, and how to link a changed JavaScriptCore: https://bun.com/docs/project/license`
  return `The program contains the following software.\n\n${[...notes, runtime].map((note) => note.trimEnd()).join("\n\n")}\n`
}

// ---

const record = (value: unknown): Params => (isObject(value) ? value : {})
const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Reads an entry of `packages`: `[id, registry, about, integrity]`. */
function entryOf(entry: unknown): {
  readonly id: string
  readonly integrity: string
  readonly names: readonly string[]
} {
  const [id, , about, integrity] = list(entry)
  const { dependencies, optionalDependencies } = record(about)
  const names = Object.keys({ ...record(dependencies), ...record(optionalDependencies) })
  return { id: String(id), integrity: String(integrity), names }
}

/** Returns the names of the packages that a key of `packages` nests, from the outermost. */
const chainOf = (key: string): readonly string[] => key.match(/(?:@[^/]+\/)?[^/]+/g) ?? []

/** Returns the key of a dependency as Node resolves it: nested in its dependent, in one of that one's parents, or at the top. */
function resolve(packages: Params, dependent: string, name: string): string {
  const chain = chainOf(dependent)
  for (let depth = chain.length; depth > 0; depth--) {
    const key = [...chain.slice(0, depth), name].join("/")
    if (packages[key] !== undefined) return key
  }
  return name
}

function licenseOf(folder: string): Pick<Component, "license" | "text"> {
  const manifest: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const file = readdirSync(folder).find((name) => /^(licen[sc]e|copying)(\.|$)/i.test(name))
  const notice = existsSync(join(folder, "NOTICE")) ? `\n\n${readFileSync(join(folder, "NOTICE"), "utf8")}` : ""
  return {
    license: String(record(manifest).license ?? "unknown"),
    text: file === undefined ? undefined : readFileSync(join(folder, file), "utf8") + notice,
  }
}
