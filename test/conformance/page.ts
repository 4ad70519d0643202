/** docs/conformance.md: its generated tables. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { ROOT } from "../e2e/harness.ts"
import { DIFFERENCES } from "./differences.ts"
import type { ClientRow, ReplicaRow, ServerRow } from "./rows.ts"
import { EXCLUDED, type ScenarioSets } from "./scenarios.ts"
import { suiteVersion } from "./suite.ts"

/** One line of the table of servers. `cells`: directly, at its own address, at `/mcp` of one, at `/mcp` of three. */
export function serverRowLine(
  { server, transport, mode, tools, revision }: ServerRow,
  cells: readonly string[],
): string {
  const address = tools === "search" ? ", `?tools=search`" : ""
  return tableLine([server, transport, `\`${mode}\`${address}`, revision, ...cells])
}

/** One line of the table of svc as a client. */
export function clientRowLine({ revision, mode, client, backends }: ClientRow, cell: string): string {
  return tableLine([revision, `\`${mode}\``, client, String(backends), ...(cell === "" ? [] : [cell])])
}

/** One line of the table of replicas. `cells`: at `/mcp` of one svc, and of three replicas. */
export function replicaRowLine({ server, processes, revision }: ReplicaRow, cells: readonly string[]): string {
  return tableLine([server, processes, revision, ...cells])
}

/** Returns the page with its generated parts replaced. */
export function renderPage(
  page: string,
  {
    servers,
    replicas,
    clients,
    sets,
  }: Readonly<Record<"servers" | "clients", readonly string[]>> & {
    readonly replicas: readonly string[] | undefined
    readonly sets: ScenarioSets
  },
): string {
  const parts: Readonly<Record<string, readonly string[] | undefined>> = {
    versions: versions(),
    servers: [
      ...tableHead([
        "server",
        "transport",
        "`protocolVersion`",
        "client",
        "directly",
        "own address",
        "`/mcp`, 1",
        "`/mcp`, 3",
      ]),
      ...servers,
    ],
    replicas: replicas && [...tableHead(["server", "processes", "client", "one svc", "three replicas"]), ...replicas],
    clients: [...tableHead(["scenarios", "`protocolVersion`", "client of svc", "servers", "passed"]), ...clients],
    scenarios: [
      ...tableHead(["role of svc", "set", "number", "scenarios"]),
      ...(["server", "client"] as const).flatMap((side) =>
        Object.entries(sets[side]).map(([set, names]) =>
          tableLine([side, set, String(names.length), names.map((name) => `\`${name}\``).join(", ")]),
        ),
      ),
    ],
    excluded: [
      ...tableHead(["scenario", "why not"]),
      ...Object.entries(EXCLUDED).map(([name, reason]) => tableLine([`\`${name}\``, reason])),
    ],
    differences: [
      ...tableHead(["scenarios", "where", "kind", "reason"]),
      ...DIFFERENCES.map(({ scenarios, where, kind, reason }) =>
        tableLine([scenarios.map((name) => `\`${name}\``).join(", "), where, kind, reason]),
      ),
    ],
  }
  return page.replace(
    /(<!-- measured: ([a-z]+) -->\n)[\s\S]*?(<!-- \/measured -->)/g,
    (whole, start: string, name: string, end: string) => {
      const part = parts[name]
      return part === undefined ? whole : `${start}${part.join("\n")}\n${end}`
    },
  )
}

// ---

function versions(): readonly string[] {
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    devDependencies: Record<string, string>
  }
  return [
    `\`@modelcontextprotocol/conformance\` ${suiteVersion()}; \`own-1x\` and \`sdk-1x\` on \`@modelcontextprotocol/sdk\` ${devDependencies["@modelcontextprotocol/sdk"]}; \`own-2x\` and \`sdk-2x\` on \`@modelcontextprotocol/server\` ${devDependencies["@modelcontextprotocol/server"]}.`,
  ]
}

const tableLine = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`

const tableHead = (cells: readonly string[]): readonly string[] => [tableLine(cells), tableLine(cells.map(() => "---"))]
