import { expect, test } from "bun:test"
import { authorizationUrl } from "../../../src/features/oauth/oauth-client.ts"

test("only http and https addresses are opened in a browser", async () => {
  const authority = (authorization_endpoint: string) => ({
    issuer: "https://as.example",
    url: "https://as.example",
    metadata: {
      issuer: "https://as.example",
      authorization_endpoint,
      token_endpoint: "https://as.example/token",
      response_types_supported: ["code"],
      code_challenge_methods_supported: ["S256"],
    },
    resource: undefined,
    scopes: undefined,
    takesDpop: false,
    dpopAlgorithms: [],
  })
  const address = (endpoint: string) =>
    authorizationUrl(
      authority(endpoint),
      { id: "c", issuer: "https://as.example" },
      "http://127.0.0.1/",
      "s",
      undefined,
      undefined,
    )
  expect((await address("https://as.example/authorize")).url).toStartWith("https://as.example/authorize?")
  for (const endpoint of ["file:///etc/passwd", "ms-msdt:/id", "ssh://-oProxyCommand=x", "javascript:alert(1)"])
    await expect(address(endpoint)).rejects.toThrow("its authorization server names a")
})
