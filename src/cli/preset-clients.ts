/** The clients that a deletion of a preset leaves without servers, for `svc preset`. */
import { configuredOptions } from "../commands/client-commands.ts"
import { filesWithPreset, placeOf } from "../features/connect/client-connection.ts"
import { svcAddresses } from "../features/connect/client-endpoint.ts"
import { clientRow } from "../features/connect/clients.ts"
import { messageOf } from "../lib/errors.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"

/**
 * Returns a warning for each client whose entry selects a preset that is gone: svc refuses it. The preset is deleted then, so a
 * search that fails is a warning, too.
 */
export async function orphanWarnings(context: LocalConfiguration, preset: string): Promise<readonly string[]> {
  try {
    const addresses = await svcAddresses(context, configuredOptions)
    return filesWithPreset(context.paths, preset, addresses).map(
      (target) =>
        `${clientRow(target.client).title} (${placeOf(target)}) still asks for the preset ${preset}, so it now gets nothing from svc; \`svc connect ${target.client}${target.scope === "user" ? "" : " --scope project"}\` gives it all servers, and \`--preset NAME\` another preset`,
    )
  } catch (error) {
    return [`cannot tell which clients still ask for the preset ${preset}: ${messageOf(error)}`]
  }
}
