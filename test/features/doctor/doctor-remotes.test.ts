import { expect, test } from "bun:test"
import { parseDocument } from "../../../src/config/document.ts"
import { plan } from "../../../src/config/plan.ts"
import { checkRemotes } from "../../../src/features/doctor/doctor-remotes.ts"
import type { Installation } from "../../../src/serve/doctor-check.ts"
import { manualClock } from "../../clock.ts"

/** Returns the findings about a remote server whose answers contain this time. */
async function findings(url: string, minutesBehind: number): Promise<readonly string[]> {
  const clock = manualClock()
  const date = new Date(clock.now() - minutesBehind * 60_000).toUTCString()
  const fetch = async () => Response.json({ jsonrpc: "2.0", id: 1, result: {} }, { headers: { date } })
  return findingsOf({ url }, fetch, clock)
}

async function findingsOf(
  server: Readonly<Record<string, unknown>>,
  fetch: Installation["fetch"],
  clock = manualClock(),
): Promise<readonly string[]> {
  const document = parseDocument(JSON.stringify({ mcpServers: { far: server } }), "mcp.json")
  const world = { parent: {}, dotenv: new Map(), platform: "linux", home: "/home/me", folder: "/", own: undefined }
  const { specs } = plan(document, world as never)
  const installation: Pick<Installation, "specs" | "live" | "clock" | "fetch"> = {
    specs,
    live: undefined,
    clock,
    fetch,
  }
  return (await checkRemotes(installation as Installation, undefined)).map(({ check, what }) => `${check}: ${what}`)
}

test("a clock that differs from those of remote servers is a finding, unless the servers are on this network [doctor:findings]", async () => {
  const ahead = "clock: the clock of this machine is 10 min ahead of the clocks of the remote servers"
  expect(await findings("https://mcp.example.com/mcp", 10)).toEqual([ahead])
  expect(await findings("https://mcp.example.com/mcp", -10)).toEqual([ahead.replace("ahead of", "behind")])
  expect(await findings("https://mcp.example.com/mcp", 1)).toEqual([])
  expect(await findings("http://192.168.1.5/mcp", 10)).toEqual([])
})

test("the check of a server carries its headers to no other origin, and says where it redirects [remote:redirect]", async () => {
  for (const type of ["http", "sse"]) {
    const seen: string[] = []
    const fetch = async (url: string, { headers }: RequestInit) => {
      if (new Headers(headers).has("x-api-key")) seen.push(new URL(url).origin)
      return new Response(null, { status: 307, headers: { location: "http://elsewhere.example/mcp" } })
    }
    const server = { type, url: "http://mcp.example.com/mcp", headers: { "X-Api-Key": "k" } }
    expect(await findingsOf(server, fetch)).toEqual([
      "remotes: far: redirects to another origin (http://elsewhere.example): put that URL into the configuration",
    ])
    expect(seen).toEqual(["http://mcp.example.com"])
  }
})
