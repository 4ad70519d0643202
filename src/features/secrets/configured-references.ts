/** The values of the references of a configuration that are not in the environment; loads the feature when there is one. */
import type { ReferenceValues, ResolvedReference } from "../../config/environment.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import { systemClock } from "../../lib/clock.ts"
import { UnavailableError } from "../../lib/errors.ts"
import { readTexts } from "../../store/documents.ts"
import { ownName, type Paths } from "../../store/paths.ts"
import type { References } from "./references.ts"

export class ConfiguredReferences implements ReferenceValues {
  private references: References | undefined
  private isClosed = false

  /** `onlate` is called when a value comes after the load that asked for it. */
  constructor(
    private readonly paths: Paths,
    private readonly world: Omit<HostEnvironment, "dotenv">,
    private readonly allowCommands: boolean,
    private readonly onlate: () => void,
  ) {}

  readonly lookUp = (reference: string): ResolvedReference | undefined => this.references?.lookUp(reference)

  async load(fresh = false, patience?: number): Promise<void> {
    try {
      const texts = readTexts(this.paths)
      const [config = "", dotenv = ""] = [texts.config(), texts.dotenv()]
      if (this.references === undefined) {
        if (!MENTIONS.test(config)) return
        this.references = await this.open()
      }
      await this.references.load(config, dotenv, fresh, patience)
    } catch (error) {
      // Whoever applies the file reports that it cannot be read.
      if (!(error instanceof UnavailableError)) throw error
    }
  }

  close(): void {
    this.isClosed = true
    this.references?.close()
  }

  // ---

  private async open(): Promise<References> {
    const [{ References }, { systemSources }] = await Promise.all([
      import("./references.ts"),
      import("./system-sources.ts"),
    ])
    const { paths, world, allowCommands, onlate } = this
    const references = new References({
      sources: systemSources(world),
      clock: systemClock,
      world,
      allowCommands,
      isDefaultFile: ownName("mcp", paths) === "mcp",
      onlate,
    })
    if (this.isClosed) references.close()
    return references
  }
}

// ---

/** A reference whose value is not in the environment. */
const MENTIONS = /\$\{(?:keychain|file|cmd):/
