import { expect, test } from "bun:test"
import { createRuntime } from "../../src/app/runtime.ts"
import { readSettings } from "../../src/app/settings.ts"

test("svc starts with a warning if the system cannot end its children with it", async () => {
  const settings = readSettings({ "log-level": "warn" }, {}, "linux")
  const runtime = await createRuntime(settings, undefined, async (onfail) => onfail("the job is refused"))
  expect(runtime.agent.secrets).toEqual([])
  await runtime.agent.close()
})
