/** Finds tools whose definition has changed since they were first seen, and tools described with invisible characters. */
import { definitionOf, fingerprintOf, isSuspicious } from "../catalog/fingerprint.ts"
import { type Listing, type ListingEntry, type Tool, uniqueByName } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Log } from "../lib/log.ts"
import { repeatsSecret } from "../lib/redact.ts"
import type { ToolPins } from "../store/tool-pins.ts"

/** Findings about a server's tools, by the server's own tool names. */
export type PinningFindings = {
  /** The definition differs from the first seen or last approved definition. */
  readonly changed: readonly string[]
  /** The description contains invisible characters. */
  readonly suspicious: readonly string[]
  /** The tool is hidden from clients. */
  readonly quarantined: ReadonlySet<string>
}

export class ToolPinning {
  /** Findings by list of tools, kept as long as the list is in memory. */
  private found = new WeakMap<readonly Tool[], { readonly pinning: string; readonly findings: PinningFindings }>()

  constructor(
    private readonly pins: ToolPins,
    private readonly log: Log,
  ) {}

  /** Returns the findings about what a server lists: the same object for the same list of tools. */
  inspect(spec: ServerSpec, { tools }: Listing): PinningFindings {
    const { toolPinning } = spec.tuning
    const known = this.found.get(tools)
    if (known?.pinning === toolPinning) return known.findings
    const findings = toolPinning === "off" ? NO_FINDINGS : this.compare(spec, tools)
    this.found.set(tools, { pinning: toolPinning, findings })
    if (known === undefined) this.logFindings(spec.name, findings)
    return findings
  }

  /** Returns the changed tools of what a server lists. */
  changes(spec: ServerSpec, listing: Listing): readonly Tool[] {
    const changed = new Set(this.inspect(spec, listing).changed)
    return changed.size === 0 ? [] : uniqueByName(listing.tools).filter(({ name }) => changed.has(name))
  }

  /** Returns the definitions that were first seen or approved, by server and tool, as far as svc has stored them. Reads a file. */
  approved(ids: readonly string[]): ReadonlyMap<string, ReadonlyMap<string, ListingEntry>> {
    return this.pins.definitions(ids)
  }

  /**
   * Approves the current definition of one tool, or of all tools; with `hash` only the definition that has this fingerprint.
   * Returns the names of the tools whose definition had changed.
   */
  approve(ids: readonly string[], tool: string | undefined, hash?: string): readonly string[] {
    this.found = new WeakMap()
    return [...new Set(ids.flatMap((id) => this.pins.approve(id, tool, hash)))]
  }

  // ---

  private compare({ id, secrets, tuning }: ServerSpec, tools: readonly Tool[]): PinningFindings {
    const unique = new Map(uniqueByName(tools).map((tool) => [tool.name, tool]))
    const prints = new Map([...unique].map(([name, tool]) => [name, fingerprintOf(tool)]))
    const changed = this.pins.check(id, prints, (name) => {
      const tool = unique.get(name)
      const definition = tool && definitionOf(tool)
      // A server may repeat what it was started with.
      return secrets.length > 0 && repeatsSecret(JSON.stringify(definition ?? null), secrets) ? undefined : definition
    })
    const suspicious = tools.filter(isSuspicious).map(({ name }) => name)
    if (changed.length + suspicious.length === 0) return NO_FINDINGS
    return {
      changed,
      suspicious,
      quarantined: tuning.toolPinning === "strict" ? new Set(changed) : NO_FINDINGS.quarantined,
    }
  }

  private logFindings(server: string, { changed, suspicious, quarantined }: PinningFindings): void {
    if (changed.length > 0)
      this.log.warn(
        `tools have changed since they were first seen: ${list(changed)}; ${quarantined.size > 0 ? "they are hidden until" : "if that is intended, run"} \`svc mcp tools approve ${server}\``,
        { server },
      )
    if (suspicious.length > 0)
      this.log.warn(`tool descriptions contain invisible characters: ${list(suspicious)}`, { server })
  }
}

// ---

const NO_FINDINGS: PinningFindings = { changed: [], suspicious: [], quarantined: new Set() }

const list = (names: readonly string[]): string =>
  `${names.slice(0, MAX_NAMED).join(", ")}${names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : ""}`

const MAX_NAMED = 10
