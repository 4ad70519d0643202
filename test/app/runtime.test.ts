import { expect, test } from "bun:test"
import { createRuntime } from "../../src/app/runtime.ts"
import { readServeOptions } from "../../src/app/serve-options.ts"

test("svc starts with a warning if the system cannot end its children with it", async () => {
  const options = readServeOptions({ "log-level": "warn" }, {}, "linux")
  const runtime = await createRuntime(options, undefined, async (onfail) => onfail("the job is refused"))
  expect(runtime.agent.secrets).toEqual([])
  await runtime.agent.close()
})
