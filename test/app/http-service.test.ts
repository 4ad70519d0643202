import { expect, test } from "bun:test"
import { startHttp } from "../../src/app/http-service.ts"
import { createRuntime } from "../../src/app/runtime.ts"
import { readServeOptions } from "../../src/app/serve-options.ts"

test("before the configuration is read, svc answers /health/live and lets every other request wait", async () => {
  const options = readServeOptions({ port: "0", "log-level": "error", persist: false }, {}, "linux")
  const runtime = await createRuntime(options, undefined)
  const service = await startHttp(runtime, options, undefined)
  let isAnswered = false
  const held = fetch(new URL("/servers/later/mcp", service.url)).then((response) => {
    isAnswered = true
    return response
  })
  expect((await fetch(new URL("/health/live", service.url))).status).toBe(200)
  expect((await fetch(new URL("/health/live", service.url))).status).toBe(200)
  expect(isAnswered).toBe(false)
  service.admit()
  expect((await held).status).toBe(404)
  service.close()
  await service.stop()
  await runtime.agent.close()
})
