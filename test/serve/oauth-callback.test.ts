import { expect, test } from "bun:test"
import { BackendError } from "../../src/lib/errors.ts"
import { takeAnswer } from "../../src/serve/oauth-callback.ts"

test("what an authorization server repeats of svc's credentials is not shown to the browser [secrets:errors]", async () => {
  const page = await takeAnswer(
    new URLSearchParams(),
    () => Promise.reject(new BackendError("web", "invalid_client: the secret s3cret-canary is unknown")),
    (text) => text.replace("s3cret-canary", "[REDACTED]"),
  )
  expect(await page.text()).toContain("the secret [REDACTED] is unknown")
})
