/** A configuration with the values of its references to the keychain, files and commands, to judge it as a running svc does. */
import { openReferences } from "../app/features.ts"
import { type LocalConfiguration, openConfiguration } from "../serve/local-configuration.ts"

/** The flag of commands that ask for the values of references. */
export const ALLOW_COMMANDS = {
  "allow-commands": { type: "boolean", description: "Run commands even if mcp.json does not allow it" },
} as const

/** Asks for the values of the references in a configuration, and calls `use` with the configuration that has them. */
export async function withReferences<T>(
  { paths, baseWorld }: LocalConfiguration,
  allowCommands: boolean,
  use: (context: LocalConfiguration) => Promise<T>,
): Promise<T> {
  const references = openReferences(paths, baseWorld, allowCommands)
  try {
    await references?.load(false, PATIENCE_MS)
    return await use(openConfiguration(paths, references?.lookUp))
  } finally {
    references?.close()
  }
}

// ---

/** A source may ask a person for a fingerprint or a password. */
const PATIENCE_MS = 20_000
