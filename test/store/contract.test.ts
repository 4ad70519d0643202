/** The stores of a single svc, in its own files and in its process. */
import { describe } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createCallRateLimit } from "../../src/call/call-rate-limit.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createAddressLimiter } from "../../src/serve/address-rate-limit.ts"
import { openSecretStore } from "../../src/store/secret-store.ts"
import { openSessionStore, type SessionStore } from "../../src/store/session-store.ts"
import { createToolPins } from "../../src/store/tool-pins.ts"
import { manualClock } from "../clock.ts"
import { type Stores, testAddressLimit, testRateLimit, testStores, WINDOW } from "./contract.ts"

async function inFiles(): Promise<Stores> {
  const directory = mkdtempSync(join(tmpdir(), "svc-stores-"))
  const file = (name: string) => join(directory, name)
  const clock = manualClock()
  const opened: SessionStore[] = []
  return {
    clock,
    async sessions() {
      const store = openSessionStore(file("sessions.sqlite"), 0)
      opened.push(store)
      return store
    },
    secrets: async (stateKey) => openSecretStore({ directory, stateKey, keychain: undefined, clock: systemClock }),
    pins: async () => createToolPins({ pins: file("tools.json"), definitions: file("definitions.json") }, clock),
    stored: () => clock.pass(1000),
    async [Symbol.asyncDispose]() {
      for (const store of opened) store.close()
      rmSync(directory, { recursive: true })
    },
  }
}

describe("in files [store:contract]", () => testStores(inFiles))

describe("in the process [store:contract]", () => {
  testRateLimit(async () => {
    const { take } = createCallRateLimit(manualClock())
    return { take: async () => take("client", "a", 3), async [Symbol.asyncDispose]() {} }
  })

  testAddressLimit(async () => {
    const count = createAddressLimiter(manualClock(), WINDOW)
    return { count: async () => count("10.0.0.1").retryAfter, async [Symbol.asyncDispose]() {} }
  })
})
