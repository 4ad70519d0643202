/** The stores that replicas share: in Redis, and in the shared state in memory that other tests use. */
import { describe, test } from "bun:test"
import { createSharedPins } from "../../../src/features/cluster/shared-pins.ts"
import { createSharedRateLimit } from "../../../src/features/cluster/shared-rate-limit.ts"
import { createSharedSecrets } from "../../../src/features/cluster/shared-secrets.ts"
import { createSharedSessions } from "../../../src/features/cluster/shared-sessions.ts"
import { systemClock } from "../../../src/lib/clock.ts"
import { createAddressLimiter } from "../../../src/serve/address-rate-limit.ts"
import { createToolPins } from "../../../src/store/tool-pins.ts"
import { manualClock } from "../../clock.ts"
import { memoryNetwork, type SharedNetwork } from "../../memory-network.ts"
import { NO_REDIS, redisNetwork } from "../../redis.ts"
import { type Stores, testAddressLimit, testRateLimit, testStores, WINDOW } from "../../store/contract.ts"

/** The kinds of shared state: what svc decides on top of it is the same. */
const kinds: [string, () => Promise<SharedNetwork>][] = [["in shared memory", async () => memoryNetwork()]]
if (NO_REDIS === undefined) kinds.push(["in Redis", redisNetwork])
else test.skip(`stores in Redis: ${NO_REDIS}`, () => {})

async function inShared(network: SharedNetwork): Promise<Stores> {
  const clock = manualClock()
  const tell = () => undefined
  return {
    clock,
    sessions: async () =>
      createSharedSessions({
        state: await network.open(),
        ttl: 60_000,
        most: 100,
        async onchange() {},
        checkLoss: async () => undefined,
        onended() {},
      }),
    secrets: async (stateKey) =>
      createSharedSecrets({
        state: await network.open(),
        replica: "r1",
        stateKey,
        clock: systemClock,
        onunsealed() {},
      }),
    async pins() {
      const own = createToolPins(undefined, clock)
      const pins = createSharedPins({ own, state: await network.open(), tell, onpinned() {} })
      await pins.sync()
      return pins
    },
    async stored() {
      await clock.pass(1000)
      await network.settle()
    },
    [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
  }
}

describe.each(kinds)("%s [store:contract]", (_, open) => {
  testStores(async () => inShared(await open()))

  testRateLimit(async () => {
    const network = await open()
    const never = { take: () => 0 }
    const replicas = [await network.open(), await network.open()].map((state) => createSharedRateLimit(state, never))
    let calls = 0
    return {
      take: async () => replicas[calls++ % replicas.length]?.take("client", "a", 3),
      [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
    }
  })

  testAddressLimit(async () => {
    const network = await open()
    const openLimiter = async () => {
      const state = await network.open()
      return createAddressLimiter(manualClock(), WINDOW, (key, ms) => state.count(key, ms))
    }
    const replicas = [await openLimiter(), await openLimiter()]
    let requests = 0
    return {
      async count() {
        const verdict = replicas[requests++ % replicas.length]?.("10.0.0.1")
        // No request waits for the counts of the other replica.
        await network.settle()
        return verdict?.retryAfter
      },
      [Symbol.asyncDispose]: () => network[Symbol.asyncDispose](),
    }
  })
})
