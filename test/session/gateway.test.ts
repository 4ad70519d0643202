import { expect, test } from "bun:test"
import { Backend } from "../../src/backend/backend.ts"
import {
  HeadersRefusedError,
  loginHint,
  TokenRequiredError,
  UnauthorizedError,
} from "../../src/backend/client-transport.ts"
import { BackendError } from "../../src/lib/errors.ts"
import { absenceReason } from "../../src/session/gateway.ts"
import { manualClock, settle } from "../clock.ts"
import { backend as snapshotOf } from "../report/snapshots.ts"

/** A backend whose first attempt ends when the test rejects it. */
async function starting() {
  const clock = manualClock()
  const attempt = Promise.withResolvers<never>()
  const { spec } = snapshotOf("starting", "web")
  const backend = new Backend(
    { ...spec, tuning: { ...spec.tuning, connectionTimeout: 300_000 } },
    {
      clock,
      open: () => attempt.promise,
      onchange() {},
      onnote() {},
    },
  )
  backend.start()
  await settle()
  const said = () => {
    const { lastError } = backend.facts
    const cause = lastError === undefined ? "" : `: ${lastError}`
    return new BackendError("web", absenceReason(backend, cause, clock.now())).message
  }
  return { clock, said, fails: attempt.reject }
}

test("the error of a call to a server that hangs at its start says for how long, and how long the start may take [tool:server-down]", async () => {
  const { clock, said, fails } = await starting()
  expect(said()).toBe("web is starting; try again in a moment")
  await clock.pass(100_000)
  expect(said()).toBe("web has not answered since it started 100 s ago (limit 5 min)")
  fails(new Error("over"))
})

test("the error of a call to a server that refused the configured headers says that no sign-in helps [tool:server-down]", async () => {
  const { said, fails } = await starting()
  fails(new HeadersRefusedError())
  await settle()
  expect(said()).toBe("web refused the credentials in headers (401)")
})

test("the error of a call to a server that wants a token and offers no sign-in says how to set one [tool:server-down]", async () => {
  const { said, fails } = await starting()
  fails(new TokenRequiredError("web"))
  await settle()
  expect(said()).toBe(
    "web requires a token in a header (401), and offers no sign-in; `svc mcp edit web -H 'Authorization: Bearer ${TOKEN}'` sets it",
  )
})

test.each([
  ["only a person can sign in", loginHint("web"), "web needs a sign-in; see `svc mcp status`"],
  [
    "a grant without a person has failed",
    "requires authorization, but auth.example did not answer with JSON; when that is corrected, run `svc auth login web`",
    "web requires authorization, but auth.example did not answer with JSON; when that is corrected, run `svc auth login web`",
  ],
])(
  "the error of a call to a server that needs authorization says what helps: %s [tool:server-down]",
  async (_when, reason, text) => {
    const { said, fails } = await starting()
    fails(new UnauthorizedError(reason))
    await settle()
    expect(said()).toBe(text)
  },
)
