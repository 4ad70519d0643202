/** Keeps a bundle's files consistent with mcp.json: they are added and removed with the entry that names them. */

import { quotedAddress } from "../../config/server-text.ts"
import type { DocumentChange } from "../../store/transaction.ts"
import type { Bundle } from "../registry/bundle.ts"
import { planBundle } from "../registry/bundle-manifest.ts"
import type { RegistryEntry } from "../registry/entry.ts"
import { bundleOf, type InputValues, type Installable, planInstall } from "../registry/install-plan.ts"
import type { ToolContext } from "./tool.ts"

/** Downloads and checks the bundle of an entry. Undefined if the entry is not run from a bundle. */
export async function openBundle(
  { bundles, signal, progress }: ToolContext,
  entry: RegistryEntry,
  type?: string,
): Promise<Bundle | undefined> {
  const from = bundleOf(entry, type)
  return from === undefined ? undefined : bundles.open(entry, from, { signal, progress })
}

/** Returns the plan that runs an entry as the server `name`: from its bundle, or as `planInstall` decides. */
export function planEntry(
  { editor: { bundleStore }, machine }: Pick<ToolContext, "editor" | "machine">,
  name: string,
  entry: RegistryEntry,
  { values, type, bundle }: { values: InputValues; type?: string | undefined; bundle: Bundle | undefined },
): Installable | { readonly reason: string } {
  if (bundle === undefined) return planInstall(entry, values, type, machine.has)
  const root = bundleStore.folder(name, bundle.hash)
  return planBundle({ manifest: bundle.manifest, from: bundle.from, root, machine }, values)
}

/** Returns the description of a bundle for a question or an answer. */
export const bundleText = ({ from, hash }: Bundle): string =>
  `the bundle ${quotedAddress(from.identifier)} (sha256 ${hash})`

/**
 * Runs a change of a server, and puts its bundle's files in place when the change is written. Afterwards, removes files that
 * mcp.json does not name: the old ones, or the new ones if the change was undone.
 */
export async function withBundle<T>(
  context: ToolContext,
  name: string,
  bundle: Bundle | undefined,
  run: (placed: (change: DocumentChange) => DocumentChange) => Promise<T>,
): Promise<T> {
  if (bundle === undefined) return run((change) => change)
  const { bundleStore } = context.editor
  context.progress(`unpacking ${bundle.from.identifier}`)
  const staged = await bundleStore.unpack(bundleStore.folder(name, bundle.hash), bundle.files, context.signal)
  try {
    return await run((change) => (written) => {
      const changed = change(written)
      staged.commit()
      return changed
    })
  } finally {
    await staged.discard()
    await pruneBundles(context, name)
  }
}

/**
 * Removes the bundles of a server that mcp.json does not name. Bundles that cannot be removed now are removed at svc's next
 * start.
 */
export const pruneBundles = ({ editor }: Pick<ToolContext, "editor">, name: string): Promise<void> =>
  editor.bundleStore.prune(name).catch(() => undefined)
