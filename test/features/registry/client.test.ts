/** What one registry is asked, and what becomes of an answer that does not come or leads elsewhere. */
import { expect, test } from "bun:test"
import { createRegistryCache } from "../../../src/features/registry/cache.ts"
import { getVersion, listServers, ping, type RegistryClientDeps } from "../../../src/features/registry/client.ts"
import { manualClock } from "../../clock.ts"

const source = (url: string) => ({ name: "test", url, headers: { "X-Api-Key": "sekret" }, secrets: [] })
const deps = (more: Partial<RegistryClientDeps> = {}): RegistryClientDeps => ({
  clock: manualClock(),
  cache: createRegistryCache(undefined),
  fetch,
  ...more,
})

test("a registry that does not answer within ten seconds is unavailable, whether its headers or its body stall", async () => {
  const clock = manualClock()
  const silent: RegistryClientDeps["fetch"] = (_url, { signal }) =>
    new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))
  const dripping: RegistryClientDeps["fetch"] = (_url, { signal }) =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(new TextEncoder().encode('{"servers":'))
            signal?.addEventListener("abort", () => controller.error(signal.reason))
          },
        }),
      ),
    )
  for (const slow of [silent, dripping]) {
    let said: unknown
    const asked = ping(source("http://registry"), deps({ clock, fetch: slow })).catch((error) => {
      said = error
    })
    await clock.pass(9_999)
    expect(said).toBeUndefined()
    await clock.pass(1)
    await asked
    expect(said).toMatchObject({ name: "RegistryError", message: "registry test: did not answer within 10 s" })
    expect(clock.timers).toBe(0)
  }
})

test("a redirect is not followed, because the headers are for this registry alone", async () => {
  const heard: (string | null)[] = []
  await using other = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      heard.push(request.headers.get("x-api-key"))
      return Response.json({ servers: [] })
    },
  })
  await using registry = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.redirect(new URL("/v0.1/servers", other.url).href, 302),
  })
  await expect(listServers(source(registry.url.href), { limit: 1 }, deps())).rejects.toThrow(
    `test: redirects to ${other.url.href}v0.1/servers; if that is correct, make it the url of the registry`,
  )
  expect(heard).toEqual([])
})

test("an error names no credential of the registry, whole or cut [secrets:errors]", async () => {
  const token = "Canary-in-a-header-of-the-registry"
  const registry = (answer: Response) =>
    ping(
      {
        name: "test",
        url: "http://registry",
        headers: { "X-Api-Key": token, Authorization: `Basic ${btoa(`me:${token}`)}` },
        secrets: [],
      },
      deps({ fetch: () => Promise.resolve(answer) }),
    ).catch((error: Error) => error.message)
  const redirect = (location: string) => registry(new Response("", { status: 302, headers: { location } }))
  const typed = (type: string) => registry(new Response("", { headers: { "content-type": type } }))
  for (const message of [
    await redirect(`https://${token.toLowerCase()}.example/`),
    await redirect(`https://example/${"x".repeat(170)}/${token}`),
    await redirect(`https://example/?basic=${btoa(`me:${token}`)}`),
    await typed(`text/${token}`),
    await typed(`text/${"x".repeat(60)}${token}`),
  ]) {
    expect(message).toMatch(/^registry test: (?:redirects to|answered text)/)
    expect(message).not.toMatch(/canary/i)
    expect(message).not.toContain(btoa(`me:${token}`).slice(0, 12))
  }
})

test("any text can be requested as a name", async () => {
  const asked: string[] = []
  const none: RegistryClientDeps["fetch"] = (url) => {
    asked.push(url)
    return Promise.resolve(new Response("", { status: 404 }))
  }
  const { value } = await getVersion(source("http://registry/"), "a/\ud800", "1?", deps({ fetch: none }))
  expect([value, asked]).toEqual([undefined, ["http://registry/v0.1/servers/a%2F%EF%BF%BD/versions/1%3F"]])
})
