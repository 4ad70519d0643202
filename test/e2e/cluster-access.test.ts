/** What lets clients and svc in, over replicas: tokens of clients. */
import { describe, expect, test } from "bun:test"
import { NO_REDIS } from "../redis.ts"
import { eventually, freshEnv, type Instance, modern, runSvc } from "./harness.ts"
import { startCluster, WanderingClient } from "./replicas.ts"

if (NO_REDIS !== undefined) test.skip(`access to replicas: ${NO_REDIS}`, () => {})

describe.skipIf(NO_REDIS !== undefined)("tokens of clients on three replicas", () => {
  const tokenOf =
    ({ folder }: Instance) =>
    async (...args: string[]): Promise<string> => {
      const { code, stdout, stderr } = await runSvc(
        ["auth", "token", ...args, "--config-dir", folder],
        freshEnv(folder),
      )
      if (code !== 0) throw new Error(`svc auth token ${args.join(" ")}: ${code} ${stderr}`)
      return stdout.trim()
    }
  const statuses = (replicas: readonly Instance[], token: string) =>
    Promise.all(
      replicas.map(
        async ({ url }) => (await modern(`${url}/mcp`, "tools/list", {}, { authorization: `Bearer ${token}` })).status,
      ),
    )
  const within = (replicas: readonly Instance[], token: string, status: number) =>
    eventually(async () => (await statuses(replicas, token)).every((one) => one === status), 1000)

  test("one that is created on a replica opens all, and one that is revoked on another opens none [cluster:tokens]", async () => {
    await using cluster = await startCluster(3, {
      flags: ["--auth"],
      env: { SVC_STATE_KEY: "a secret of the cluster" },
    })
    const { replicas, redis } = cluster
    const [one, other, third] = replicas as unknown as readonly [Instance, Instance, Instance]
    const made = await tokenOf(one)("create", "ci")
    await within(replicas, made, 200)
    const client = new WanderingClient({ authorization: `Bearer ${made}` })
    await client.open(one)
    const stream = await client.get(third)
    expect(stream.status).toBe(200)
    // The commands of each replica know it.
    await eventually(async () => (await tokenOf(other)("list")).includes("ci"))
    const kept = await tokenOf(third)("create", "kept")
    await within(replicas, kept, 200)
    await tokenOf(other)("revoke", "ci")
    await within(replicas, made, 401)
    await stream.text().catch(() => "")
    expect((await client.post(one, { id: 3, method: "ping" })).status).toBe(401)
    // Without Redis each replica knows what it knew, and a revocation reaches the others when Redis is back.
    await redis.kill()
    expect(await statuses(replicas, kept)).toEqual([200, 200, 200])
    expect(await statuses(replicas, made)).toEqual([401, 401, 401])
    await tokenOf(one)("revoke", "kept")
    await within([one], kept, 401)
    expect(await statuses([other, third], kept)).toEqual([200, 200])
    await redis.start()
    await eventually(async () => (await statuses(replicas, kept)).every((status) => status === 401))
    expect(await statuses(replicas, made)).toEqual([401, 401, 401])
    for (const replica of replicas) expect(replica.stderr()).not.toContain(made)
  })
})
