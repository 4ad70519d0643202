/** Reads a minimal mcp.json into a plan. */
import { readFileSync } from "node:fs"
import { parse } from "jsonc-parser"
import { isObject } from "../wire/message.ts"
import type { Plan, Spec } from "./spec.ts"

export function loadPlan(file: string, env: Readonly<Record<string, string | undefined>>): Plan {
  const value: unknown = parse(readFileSync(file, "utf8"))
  const servers = isObject(value) && isObject(value.mcpServers) ? Object.entries(value.mcpServers) : []
  const specs = servers.flatMap(([name, server]): Spec[] => {
    if (!isObject(server)) return []
    const tuning = {
      tags: [],
      disabledTools: [],
      toolDescriptionOverrides: {},
      connectionTimeout: 60000,
      requestTimeout: 60000,
      restart: { kind: server.restartOnExit === true ? "supervised" : "never", limit: 5, delay: 1000 } as const,
      isolation: "shared" as const,
    }
    const mode = "auto" as const
    const slug = name.replace(/[^A-Za-z0-9._-]/g, "-")
    if (typeof server.url === "string") {
      const transport = server.type === "sse" || server.type === "streamableHttp" ? server.type : "http"
      return [
        {
          id: name,
          name,
          slug,
          secrets: [],
          tuning: { ...tuning, restart: { kind: "reconnect", limit: 0, delay: 1000 } },
          launch: { transport, url: server.url, headers: {}, oauth: undefined, mode },
        },
      ]
    }
    const safe = ["HOME", "PATH", "USER", "LANG", "TMPDIR", "SHELL", "TERM", "LOGNAME"]
    const inherited = Object.fromEntries(
      safe.flatMap((key) => (env[key] === undefined ? [] : [[key, env[key] as string]])),
    )
    return [
      {
        id: name,
        name,
        slug,
        secrets: [],
        tuning,
        launch: {
          transport: "stdio",
          command: String(server.command),
          args: Array.isArray(server.args) ? server.args.map(String) : [],
          cwd: undefined,
          env: { ...inherited, ...(isObject(server.env) ? (server.env as Record<string, string>) : {}) },
          stderr: "pipe",
          mode,
        },
      },
    ]
  })
  return { specs, disabled: [], issues: [] }
}
