/** The list of well-known servers: each of them can be installed. */
import { expect, test } from "bun:test"
import { planInstall } from "../../../src/features/registry/install-plan.ts"
import list from "../../../src/features/registry/known-servers.json"
import { loadKnownServers } from "../../../src/features/registry/known-servers.ts"
import { isSecretName } from "../../../src/lib/secret-names.ts"

test("every well-known server is a valid entry with a title, and svc can install it [registry:known]", async () => {
  const { since, entries } = await loadKnownServers()
  expect(since).toMatch(/^20\d\d-\d\d-\d\d$/)
  expect(entries.map(({ name }) => name)).toEqual(list.servers.map(({ name }) => name))
  expect(new Set(entries.map(({ name }) => name)).size).toBe(entries.length)
  // Each gets a name of its own in mcp.json.
  expect(new Set(entries.map(({ name }) => name.split("/").at(-1))).size).toBe(entries.length)
  for (const entry of entries) {
    expect({ ...entry, title: entry.title ?? "", status: entry.status }).toMatchObject({
      title: expect.stringMatching(/./),
      description: expect.stringMatching(/./),
      version: expect.stringMatching(/./),
      status: "active",
    })
    const plan = planInstall(entry, {})
    if ("reason" in plan) throw new Error(`${entry.name}: ${plan.reason}`)
    for (const { name, secret, description } of [...plan.missing, ...plan.optional]) {
      expect([entry.name, name, description]).toEqual([entry.name, name, expect.any(String)])
      if (isSecretName(name)) expect([entry.name, name, secret]).toEqual([entry.name, name, true])
    }
    for (const { url } of entry.remotes) expect(url).toStartWith("https://")
  }
})
