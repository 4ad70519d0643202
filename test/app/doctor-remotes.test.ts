import { expect, test } from "bun:test"
import { checkRemotes } from "../../src/app/doctor-remotes.ts"
import type { Installation } from "../../src/app/installation.ts"
import { parseDocument } from "../../src/config/document.ts"
import { plan } from "../../src/config/plan.ts"
import { manualClock } from "../clock.ts"

/** Returns the findings about a remote server whose answers contain this time. */
async function findings(url: string, minutesBehind: number): Promise<readonly string[]> {
  const clock = manualClock()
  const date = new Date(clock.now() - minutesBehind * 60_000).toUTCString()
  const document = parseDocument(JSON.stringify({ mcpServers: { far: { url } } }), "mcp.json")
  const world = { parent: {}, dotenv: new Map(), platform: "linux", home: "/home/me", folder: "/", own: undefined }
  const { specs } = plan(document, world as never)
  const fetch = async () => Response.json({ jsonrpc: "2.0", id: 1, result: {} }, { headers: { date } })
  const installation: Pick<Installation, "specs" | "live" | "clock" | "fetch"> = {
    specs,
    live: undefined,
    clock,
    fetch,
  }
  return (await checkRemotes(installation as Installation)).map(({ check, what }) => `${check}: ${what}`)
}

test("a clock that differs from those of remote servers is a finding, unless the servers are on this network [doctor:findings]", async () => {
  const ahead = "clock: the clock of this machine is 10 min ahead of the clocks of the remote servers"
  expect(await findings("https://mcp.example.com/mcp", 10)).toEqual([ahead])
  expect(await findings("https://mcp.example.com/mcp", -10)).toEqual([ahead.replace("ahead of", "behind")])
  expect(await findings("https://mcp.example.com/mcp", 1)).toEqual([])
  expect(await findings("http://192.168.1.5/mcp", 10)).toEqual([])
})
