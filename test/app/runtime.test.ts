import { expect, test } from "bun:test"
import { createRuntime } from "../../src/app/runtime.ts"
import { readServeOptions } from "../../src/app/serve-options.ts"
import { createReaper } from "../../src/backend/reaper.ts"

test("if the system cannot end svc's children together with svc, svc starts with a warning", async () => {
  const options = readServeOptions({ "log-level": "warn" }, {}, "linux")
  const runtime = await createRuntime(options, undefined, (onfail) => {
    onfail("the job is refused")
    return createReaper(() => undefined)
  })
  expect(runtime.agent.secrets).toEqual([])
  await runtime.agent.close()
})
