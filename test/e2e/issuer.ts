import { exportJWK, generateKeyPair, type JWTPayload, SignJWT } from "jose"

/** An issuer that can be broken on purpose. */
export async function startIssuer() {
  const keyOf = async (kid: string) => {
    const { publicKey, privateKey } = await generateKeyPair("ES256")
    return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" } }
  }
  let keys = [await keyOf("one")]
  let down = false
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request): Response {
      const { pathname } = new URL(request.url)
      if (down) return new Response("gone", { status: 503 })
      if (pathname === "/.well-known/oauth-authorization-server")
        return Response.json({
          issuer: url,
          jwks_uri: `${url}/jwks`,
          scopes_supported: ["openid", "tag:web", "tag:local"],
        })
      if (pathname === "/jwks") return Response.json({ keys: keys.map(({ jwk }) => jwk) })
      return new Response(null, { status: 404 })
    },
  })
  const url = `http://127.0.0.1:${server.port}`
  return {
    url,
    sign(
      taskOwners: JWTPayload,
      { kid = keys[0]?.kid ?? "", key = keys[0]?.privateKey, ends = "5m" as string | number } = {},
    ) {
      if (key === undefined) throw new Error("no key")
      return new SignJWT({ sub: "ada", iss: url, ...taskOwners })
        .setProtectedHeader({ alg: "ES256", kid })
        .setIssuedAt()
        .setExpirationTime(ends)
        .sign(key)
    },
    async rotate() {
      const next = await keyOf(`k${keys.length}${Math.random()}`)
      keys = [next]
    },
    another: () => keyOf("one"),
    power(on: boolean) {
      down = !on
    },
    stop: () => server.stop(true),
  }
}
