/** `svc cluster`: shows the cluster, as the replica of this configuration sees it. */
import type { CommandDef } from "citty"
import { CONTEXT_ARGS, notRunning, openContext } from "../commands/command-context.ts"
import type { ClusterReport } from "../features/cluster/cluster-report.ts"
import { systemClock } from "../lib/clock.ts"
import { ago, print, stdoutLook, table } from "../lib/output.ts"
import { wrap } from "../lib/table.ts"

const status: CommandDef = {
  meta: { name: "status", description: "Show the replicas, their load, and where servers that run once are" },
  args: CONTEXT_ARGS,
  async run({ args }) {
    const { paths, ask } = openContext(args)
    const found = (await ask("cluster")) as ClusterReport | undefined
    if (found === undefined) throw notRunning(paths)
    print(args.json === true, found, () => textOf(found))
    return 0
  },
}

export const cluster: CommandDef = {
  meta: { name: "cluster", description: "Show the replicas that share a Redis" },
  subCommands: { status },
}

// ---

function stateWord({ connected, problem }: ClusterReport["state"]): string {
  if (!connected) return "away"
  return problem === undefined ? "connected" : "refusing writes"
}

function textOf({ state, replicas, servers }: ClusterReport): string {
  const shown = replicas.map((one) => [
    `${one.id}${one.self ? " (this)" : ""}`,
    one.address,
    one.state,
    ago(one.uptimeSeconds * 1000),
    String(one.calls),
    String(one.sessions),
    String(one.streams),
    one.version,
    one.config,
  ])
  const head = ["replica", { title: "address", fit: "whole" }, "state", "up", "calls", "sessions", "streams"] as const
  const parts = [
    `shared state: ${state.address}, ${stateWord(state)}${state.since === undefined ? "" : ` for ${ago(systemClock.now() - Date.parse(state.since))}`}`,
    ...(state.problem === undefined ? [] : [wrap(state.problem, stdoutLook())]),
    table([...head, "version", "configuration"], shown),
  ]
  for (const { id, address, unreachedBy } of replicas)
    if (unreachedBy.length > 0)
      parts.push(
        `${id} cannot be reached at ${address} by ${unreachedBy.join(", ")}: start it with --cluster-address and an address at which the other replicas reach it`,
      )
  if (servers.length > 0)
    parts.push(
      table(
        ["server that runs once", "replica"],
        servers.map(({ server, replica }) => [server, replica ?? "none at the moment"]),
      ),
    )
  return parts.join("\n\n")
}
