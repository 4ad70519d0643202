import { expect, test } from "bun:test"
import { BackendError } from "../../src/lib/errors.ts"
import { takeAnswer } from "../../src/serve/oauth-callback.ts"

test("credentials that an authorization server repeats in an error are masked on the page [secrets:errors]", async () => {
  const page = await takeAnswer(
    new URLSearchParams(),
    () => Promise.reject(new BackendError("web", "invalid_client: the secret s3cret-canary is unknown")),
    (text) => text.replace("s3cret-canary", "[REDACTED]"),
  )
  expect(await page.text()).toContain("the secret [REDACTED] is unknown")
})
