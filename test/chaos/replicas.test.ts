/**
 * Three replicas behind a load balancer, killed at random together with Redis: clients of both eras keep a book of their calls,
 * and the servers a journal. SVC_CHAOS_REPLICAS_MS makes it longer, SVC_SEED another one.
 */
import { describe, expect, test } from "bun:test"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { eventually, fixture, freshFolder, type Instance, modern, removeFolder, startSvc } from "../e2e/harness.ts"
import { startCluster, WanderingClient } from "../e2e/replicas.ts"
import type { Entry } from "../fixtures/journal.ts"
import { randomFrom } from "../fixtures/mutations.ts"
import { NO_REDIS } from "../redis.ts"

const DURATION_MS = Number(process.env.SVC_CHAOS_REPLICAS_MS ?? 15_000)
const SEED = Number(process.env.SVC_SEED ?? 20_260_728)
const CLIENTS = 12
/** How long after a kill a call may fail that needs a session, or a server with one owner: a lease passes on, and a process starts. */
const AFTER_MS = 6000

const WARM = { nonce: "w", by: "w", ms: 0 }

type Call = {
  readonly nonce: string
  readonly stateless: boolean
  readonly started: number
  ended: number
  said: string
}

describe.skipIf(NO_REDIS !== undefined)("replicas in chaos", () => {
  test(
    "nothing is executed twice or answered to another, and calls fail only where something was killed [cluster:chaos]",
    async () => {
      const journals = freshFolder()
      await using opened = new AsyncDisposableStack()
      opened.defer(() => removeFolder(journals))
      const server = (name: string) => ({
        command: "bun",
        args: [fixture("journal.ts"), "--name", name, "--journal", join(journals, name)],
      })
      const mcpServers = { each: server("each"), once: { ...server("once"), replicas: "one" } }
      const cluster = opened.use(await startCluster(3, { config: { mcpServers } }))
      // A replica is ready before it knows who runs "once".
      for (const { url } of cluster.replicas)
        await eventually(async () =>
          textIn((await modern(`${url}/mcp`, "tools/call", { name: "once_svc_work", arguments: WARM })).body).endsWith(
            "w",
          ),
        )
      const random = randomFrom(SEED)
      const calls: Call[] = []
      const kills: { readonly from: number; to: number; readonly replica: boolean }[] = []
      let on = true
      const client = async (index: number) => {
        const own = randomFrom(SEED * 100 + index)
        let session: WanderingClient | undefined
        for (let count = 0; on; count++) {
          const name = `${own() < 0.7 ? "each" : "once"}_svc_work`
          const stateless = index % 2 === 0 && name.startsWith("each")
          const call: Call = { nonce: `c${index}.${count}`, stateless, started: Date.now(), ended: 0, said: "" }
          const params = { name, arguments: { nonce: call.nonce, by: `c${index}`, ms: Math.floor(own() * 100) } }
          calls.push(call)
          try {
            if (index % 2 === 0) {
              const { body } = await modern(`${cluster.url}/mcp`, "tools/call", params)
              call.said = textIn(body)
            } else {
              if (session === undefined) {
                session = new WanderingClient()
                await session.open(cluster)
              }
              call.said = textIn(await session.request(cluster, "tools/call", params))
            }
          } catch (error) {
            call.said = `failed: ${error}`
          }
          call.ended = Date.now()
          if (!call.said.endsWith(call.nonce)) session = undefined
          await Bun.sleep(own() * 50)
        }
      }
      const chaos = async () => {
        const current = [...cluster.replicas]
        while (on) {
          await Bun.sleep(500 + random() * 1500)
          const kill = { from: Date.now(), to: Number.POSITIVE_INFINITY, replica: random() >= 0.25 }
          kills.push(kill)
          if (!kill.replica) {
            await cluster.redis.kill()
            await Bun.sleep(random() * 1000)
            await cluster.redis.start()
          } else {
            const at = Math.floor(random() * current.length)
            const { url, folder, signal, exited } = current[at] as Instance
            signal("SIGKILL")
            await exited
            kill.to = Date.now()
            const env = { SVC_CLUSTER: cluster.redis.url, SVC_KEYCHAIN: "off", SVC_DRAIN_DELAY: "0s" }
            current[at] = opened.use(await startSvc({ folder, port: Number(new URL(url).port), env }))
          }
          kill.to = Math.min(kill.to, Date.now())
        }
      }
      const all = Promise.all([chaos(), ...Array.from({ length: CLIENTS }, (_, index) => client(index))])
      await Bun.sleep(DURATION_MS)
      on = false
      await all
      const entries = readdirSync(journals).flatMap((name) =>
        readFileSync(join(journals, name), "utf8")
          .split("\n")
          .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Entry])),
      )
      const runs = Object.groupBy(
        entries.flatMap((entry) => (entry.what === "run" && entry.nonce !== WARM.nonce ? [entry] : [])),
        ({ nonce }) => nonce,
      )
      const ok = calls.filter(({ said, nonce }) => said.endsWith(` ${nonce}`))
      const failed = calls.filter((call) => !ok.includes(call))
      process.stderr.write(
        `replicas: seed ${SEED}, ${calls.length} calls, ${failed.length} failed, ${failed.filter(({ stateless }) => stateless).length} of them in flight on a replica that was killed, ${kills.length} kills\n`,
      )
      expect(Object.entries(runs).filter(([, times = []]) => times.length > 1)).toEqual([])
      expect(ok.filter(({ nonce }) => runs[nonce] === undefined)).toEqual([])
      // An answer that names another call.
      expect(failed.filter(({ said }) => /^\w+ c\d+\.\d+$/.test(said))).toEqual([])
      // A modern call of a server that every replica runs fails only if its replica is killed meanwhile.
      const excused = ({ started, ended, stateless }: Call) =>
        kills.some(
          ({ from, to, replica }) =>
            (replica || !stateless) && from <= ended && to >= started - (stateless ? 0 : AFTER_MS),
        )
      expect(failed.filter((call) => !excused(call))).toEqual([])
      expect(ok.length).toBeGreaterThan(100)
    },
    DURATION_MS + 120_000,
  )
})

/** Returns the text of an answer, or all of it. */
function textIn(answer: object): string {
  const { result } = answer as { readonly result?: { readonly content?: readonly { readonly text: string }[] } }
  return result?.content?.[0]?.text ?? JSON.stringify(answer)
}
