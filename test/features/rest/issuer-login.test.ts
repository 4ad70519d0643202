/** The login of the admin page at an issuer. test/e2e/rest-login.test.ts tests the whole flow. */
import { expect, test } from "bun:test"
import { createIssuerClient } from "../../../src/features/oauth/issuer-client.ts"
import { createIssuerLogin } from "../../../src/features/rest/issuer-login.ts"
import { manualClock } from "../../clock.ts"

const ISSUER = "https://id.example"
const METADATA = {
  issuer: ISSUER,
  authorization_endpoint: `${ISSUER}/authorize`,
  token_endpoint: `${ISSUER}/token`,
  response_types_supported: ["code"],
  code_challenge_methods_supported: ["S256"],
  client_id_metadata_document_supported: true,
}

/** Begins a login at svc that is reached under `base`, and returns the cookie. */
async function cookieAt(base: string): Promise<string> {
  const login = createIssuerLogin({
    issuer: ISSUER,
    audience: undefined,
    clock: manualClock(),
    authorize: createIssuerClient({
      issuer: ISSUER,
      scope: "svc:admin",
      fetch: async () => Response.json(METADATA),
      metadataUrl: `${base}/oauth/client.json`,
    }),
    newSecret: () => "secret",
    base: () => base,
  })
  const response = await login.begin(new Request(`http://${new URL(base).host}/admin/login`))
  return response.headers.get("set-cookie") ?? ""
}

test("the cookie of a login is Secure if browsers reach svc over https, also through a proxy", async () => {
  const plain = "svc_admin_login=secret; Path=/; HttpOnly; SameSite=Lax; Max-Age=600"
  expect(await cookieAt("http://svc.example")).toBe(plain)
  expect(await cookieAt("https://svc.example")).toBe(`${plain}; Secure`)
})
