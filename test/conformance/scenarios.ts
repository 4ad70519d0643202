/** Which scenarios of the suite are run, in which set, and which are not, with the reason. docs/conformance.md names all. */
import type { Family } from "./rows.ts"
import { REVISIONS, type Revision, type Suite, scenariosOf } from "./suite.ts"

export type ScenarioSets = {
  readonly server: Readonly<Record<Revision | Exclude<Family, "own" | "sdk">, readonly string[]>>
  readonly client: Readonly<Record<Revision | "2025-03-26" | "extensions", readonly string[]>>
}

const AUTHORIZATION_SERVER =
  "svc is not an authorization server; it only uses authorization servers and validates their tokens"

/** The scenarios that are not run. */
export const EXCLUDED: Readonly<Record<string, string>> = {
  "tasks-status-notifications":
    "the suite skips all checks of this scenario, because it does not yet listen on the stream that carries these notifications",
  "authorization-server-metadata-endpoint": AUTHORIZATION_SERVER,
  "authorization-code-grant": AUTHORIZATION_SERVER,
}

/** Returns the sets of scenarios that are run. */
export async function scenarioSets(suite: Suite): Promise<ScenarioSets> {
  const { server, client } = suite.scenarios
  const [legacy, modern] = REVISIONS
  const extension = (prefix: string) =>
    server.filter((name) => suite.extensions.has(name) && name.startsWith(prefix) && !(name in EXCLUDED))
  return {
    server: {
      [legacy]: await scenariosOf(legacy, "server", suite),
      [modern]: await scenariosOf(modern, "server", suite),
      skills: extension("sep-2640-"),
      tasks: extension("tasks-"),
    },
    client: {
      "2025-03-26": client.filter((name) => name.startsWith("auth/2025-03-26-")),
      [legacy]: await scenariosOf(legacy, "client", suite),
      [modern]: await scenariosOf(modern, "client", suite),
      extensions: client.filter((name) => suite.extensions.has(name)),
    },
  }
}

/** Returns the scenarios of the suite that a page does not mention. */
export function unmentioned({ scenarios }: Suite, page: string): readonly string[] {
  return Object.values(scenarios)
    .flat()
    .filter((name) => !page.includes(`\`${name}\``))
}
