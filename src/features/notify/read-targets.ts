/** Reads what the files say of notifications. */
import { parseDocument } from "../../config/document.ts"
import { parseDotenv } from "../../config/dotenv.ts"
import { type NotifyTarget, readNotifyTargets } from "../../config/notify.ts"
import type { HostEnvironment } from "../../config/plan.ts"
import type { Issue } from "../../lib/errors.ts"
import { readTexts } from "../../store/documents.ts"
import { ownName, type Paths } from "../../store/paths.ts"

/** What the files say of notifications. */
export type ConfiguredNotify = {
  readonly targets: readonly NotifyTarget[]
  readonly issues: readonly Issue[]
  /** Whether the file lets svc run commands. */
  readonly allowCommands: boolean
}

/** Reads the files. Throws a ConfigError if one cannot be used, an UnavailableError if one cannot be read. */
export function readConfiguredNotify(paths: Paths, world: Omit<HostEnvironment, "dotenv">): ConfiguredNotify {
  const texts = readTexts(paths)
  const document = parseDocument(texts.config() ?? "", paths.file)
  if (document.value.notify === undefined) return { targets: [], issues: [], allowCommands: false }
  const dotenv = parseDotenv(texts.dotenv() ?? "", paths.dotenv)
  // As for references to commands: a file that is handed around must not run anything.
  const allowCommands = ownName("mcp", paths) === "mcp" && document.value.allowCommands === true
  return { ...readNotifyTargets(document, { ...world, dotenv }), allowCommands }
}
