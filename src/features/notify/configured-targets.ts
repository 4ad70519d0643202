/** The notifications that a configuration asks for; loads the rest of the feature when it does. */
import type { HostEnvironment } from "../../config/plan.ts"
import { ConfigError, UnavailableError } from "../../lib/errors.ts"
import { readText } from "../../store/files.ts"
import type { Paths } from "../../store/paths.ts"
import type { AlertWatch, AlertWatchDeps } from "./alert-watch.ts"
import type { ConfiguredNotify } from "./read-targets.ts"

/** What a running svc gives to notifications. */
export type TargetsDeps = Omit<AlertWatchDeps, "senders" | "tokens"> & {
  readonly paths: Paths
  readonly world: Omit<HostEnvironment, "dotenv">
  /** Whether `svc serve --allow-commands` was given. */
  readonly allowCommands: boolean
  /** The file of the tokens of clients. */
  readonly tokensFile: string
}

export class ConfiguredTargets {
  private notifications: AlertWatch | undefined
  private allowCommands = false
  /** The values that must not be shown: another array when they change. */
  secrets: readonly string[] = []

  constructor(private readonly deps: TargetsDeps) {}

  /** Reads the targets again. While the files are invalid, the last ones stay. */
  async load(): Promise<void> {
    try {
      if (this.notifications === undefined && !MENTIONS.test(readText(this.deps.paths.file) ?? "")) return
      const { readConfiguredNotify } = await import("./read-targets.ts")
      await this.apply(readConfiguredNotify(this.deps.paths, this.deps.world))
    } catch (error) {
      // Whoever applies the files reports it.
      if (!(error instanceof ConfigError || error instanceof UnavailableError)) throw error
    }
  }

  /** Ends the watch, and sends what is waiting, for a short time. */
  async close(): Promise<void> {
    await this.notifications?.close()
  }

  // ---

  private async apply({ targets, allowCommands }: ConfiguredNotify): Promise<void> {
    this.allowCommands = this.deps.allowCommands || allowCommands
    if (targets.length === 0 && this.notifications === undefined) return
    const { notifySecrets } = await import("../../config/notify.ts")
    this.secrets = notifySecrets(targets)
    this.notifications ??= await this.open()
    this.notifications.configure(targets)
  }

  private async open(): Promise<AlertWatch> {
    const [{ AlertWatch }, { systemSenders }, { readTokens }] = await Promise.all([
      import("./alert-watch.ts"),
      import("./system-senders.ts"),
      import("../../store/client-tokens.ts"),
    ])
    const { tokensFile, world } = this.deps
    return new AlertWatch({
      ...this.deps,
      senders: systemSenders(world.folder, world.parent, () => this.allowCommands),
      tokens: () => [...readTokens(tokensFile, world.platform).tokens.values()],
    })
  }
}

// ---

const MENTIONS = /"notify"/
