/**
 * Finds definitions that svc repaired or left out, and names, descriptions and lists that clients truncate or refuse: of a
 * connected server in its lists, of any other server in the configuration file and among the tools that svc has seen.
 */
import { longDescriptions, MAX_DESCRIPTION, nameWarnings } from "../catalog/client-limits.ts"
import { definitionTexts } from "../catalog/definition-check.ts"
import { qualify } from "../catalog/name.ts"
import { isHidden } from "../catalog/tool-settings.ts"
import { issueAt } from "../config/document.ts"
import { slugOf } from "../config/server-spec.ts"
import { ConfigError, type Issue, UnavailableError } from "../lib/errors.ts"
import type { Status } from "../report/status.ts"
import { pinnedTools, toolPinsFile } from "../store/tool-pins.ts"
import { isSwitchedOff } from "../template/instance.ts"
import { isObject, type Params } from "../wire/message.ts"
import { configuredServers, type LocalConfiguration, runningStatus } from "./local-configuration.ts"

/** The code of issues about definitions that svc repaired or left out. */
export const DEFINITIONS = "definitions"

/** Returns the findings as warnings; none if the configuration file is malformed. Works with and without a running svc. */
export async function findLimitIssues(context: LocalConfiguration): Promise<readonly Issue[]> {
  const live = await runningStatus(context).catch((error: unknown) => {
    if (error instanceof UnavailableError) return undefined
    throw error
  })
  try {
    const document = context.document()
    const servers = [...configuredServers(context)]
    const issues = servers.flatMap(([name, { section, server }]) => {
      const running = live?.servers.filter((one) => one.name === name && one.tools !== undefined) ?? []
      if (isSwitchedOff(name, section, server)) return []
      const repaired = new Set(running.flatMap(({ definitions = [] }) => definitionTexts(definitions)))
      const known = running.length === 0 ? writtenWarnings(context, name, server) : running.flatMap(warningsOf)
      const texts = [...repaired, ...known.filter((warning) => !repaired.has(warning))]
      return [...new Set(texts)].map((text) => {
        const code = repaired.has(text) ? DEFINITIONS : CODE
        return issueAt(document, "warning", code, [section, name], `${name}: ${text}`, name)
      })
    })
    const together = (live?.warnings ?? []).map((message): Issue => ({ code: CODE, severity: "warning", message }))
    return [...issues, ...together]
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}

// ---

const CODE = "client_limits"

const warningsOf = ({ warnings = [] }: Status["servers"][number]): readonly string[] => warnings

/** Returns the warnings about a server that need no connection to it. */
function writtenWarnings({ paths }: LocalConfiguration, name: string, server: Params): readonly string[] {
  const { disabledTools, toolDescriptionOverrides: texts } = server
  const slug = slugOf(name)
  const tuning = { disabledTools: Array.isArray(disabledTools) ? disabledTools.map(String) : [] }
  const seen = pinnedTools(toolPinsFile(paths), name).filter((tool) => !isHidden({ name, slug, tuning }, tool))
  const long = Object.entries(isObject(texts) ? texts : {}).flatMap(([tool, text]) =>
    typeof text === "string" && text.length > MAX_DESCRIPTION ? [tool] : [],
  )
  return [...longDescriptions(long), ...nameWarnings(seen.map((tool) => qualify(slug, tool)))]
}
