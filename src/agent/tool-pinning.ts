/** Whether servers still offer what they were seen to offer first, and whether their words are what a person sees. */
import { fingerprintOf, isSuspicious } from "../catalog/fingerprint.ts"
import type { Listing, Tool } from "../catalog/listing.ts"
import type { ServerSpec } from "../config/server-spec.ts"
import type { Log } from "../lib/log.ts"
import type { ToolPins } from "../store/tool-pins.ts"

/** Names of tools, as the server has them. */
export type PinningFindings = {
  /** They are not what they were when they were first seen. */
  readonly changed: readonly string[]
  /** Their words hold characters that nobody sees. */
  readonly suspicious: readonly string[]
  /** They are kept from clients. */
  readonly quarantined: ReadonlySet<string>
}

export class ToolPinning {
  /** What was found, for as long as the list of tools lives. */
  private found = new WeakMap<readonly Tool[], { readonly pinning: string; readonly findings: PinningFindings }>()

  constructor(
    private readonly pins: ToolPins,
    private readonly log: Log,
  ) {}

  /** Looks at what a server lists. The same object for the same list of tools. */
  inspect({ id, name, tuning: { toolPinning } }: ServerSpec, { tools }: Listing): PinningFindings {
    const known = this.found.get(tools)
    if (known?.pinning === toolPinning) return known.findings
    const findings = toolPinning === "off" ? NOTHING : this.compare(id, tools, toolPinning === "strict")
    this.found.set(tools, { pinning: toolPinning, findings })
    if (known === undefined) this.logFindings(name, findings)
    return findings
  }

  /** What a server, or its one tool, is now is right. Gives the names of the tools that had changed. */
  approve(ids: readonly string[], tool: string | undefined): readonly string[] {
    this.found = new WeakMap()
    return [...new Set(ids.flatMap((id) => this.pins.approve(id, tool)))]
  }

  // ---

  private compare(id: string, tools: readonly Tool[], strict: boolean): PinningFindings {
    // Of two with one name, clients see the first.
    const prints = new Map(tools.toReversed().map((tool) => [tool.name, fingerprintOf(tool)]))
    const changed = this.pins.check(id, prints)
    const suspicious = tools.filter(isSuspicious).map(({ name }) => name)
    if (changed.length + suspicious.length === 0) return NOTHING
    return { changed, suspicious, quarantined: strict ? new Set(changed) : NOTHING.quarantined }
  }

  private logFindings(server: string, { changed, suspicious, quarantined }: PinningFindings): void {
    if (changed.length > 0)
      this.log.warn(
        `tools have changed since they were first seen: ${list(changed)}; ${quarantined.size > 0 ? "they are hidden until" : "if that is right,"} \`svc mcp tools approve ${server}\``,
        { server },
      )
    if (suspicious.length > 0)
      this.log.warn(`tools are described with characters that nobody sees: ${list(suspicious)}`, { server })
  }
}

// ---

const NOTHING: PinningFindings = { changed: [], suspicious: [], quarantined: new Set() }

const list = (names: readonly string[]): string =>
  `${names.slice(0, MAX_NAMED).join(", ")}${names.length > MAX_NAMED ? ` and ${names.length - MAX_NAMED} more` : ""}`

const MAX_NAMED = 10
