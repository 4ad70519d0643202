/** How a bundle is downloaded, and what becomes of one that does not come, is another one, or leads elsewhere. */
import { expect, test } from "bun:test"
import { type BundleDeps, createBundles } from "../../../src/features/registry/bundle.ts"
import { readEntry } from "../../../src/features/registry/entry.ts"
import { bundleOf as packageOf } from "../../../src/features/registry/install-plan.ts"
import { manualClock } from "../../clock.ts"
import { bundleOf, sha256 } from "../../fixtures/bundle.ts"

const BYTES = bundleOf(1)
const URL_ = "https://files.example/x.mcpb"

function open(
  fetch: BundleDeps["fetch"],
  { identifier = URL_, clock = manualClock(), signal = new AbortController().signal } = {},
) {
  const transport = { type: "stdio" }
  const one = { registryType: "mcpb", identifier, version: "1", fileSha256: sha256(BYTES).toUpperCase(), transport }
  const entry = readEntry({ name: "a/b", version: "1", packages: [one] }, "test")
  const from = entry === undefined ? undefined : packageOf(entry)
  if (entry === undefined || from === undefined) throw new Error("no bundle")
  const said: string[] = []
  const bundles = createBundles({ clock, fetch })
  const waiting = { signal, progress: (text: string) => said.push(text) }
  return {
    said,
    clock,
    bundles,
    again: () => bundles.open(entry, from, waiting),
    opened: bundles.open(entry, from, waiting),
  }
}
const redirect = (to: string) => new Response("", { status: 302, headers: { location: to } })

test("a bundle is read, and kept for a while", async () => {
  const asked: [string, RequestInit][] = []
  const { opened, again, clock, said } = open(async (url, init) => {
    asked.push([url, init])
    return new Response(BYTES)
  })
  const bundle = await opened
  expect(bundle).toMatchObject({ hash: sha256(BYTES), manifest: { server: { type: "node" } } })
  expect(bundle.files.map(({ path }) => path)).toEqual(["manifest.json", "server/index.js"])
  expect(said).toEqual([`downloading ${URL_}`])
  await again()
  expect(asked).toEqual([[URL_, { signal: expect.anything(), redirect: "manual" }]])
  await clock.pass(5 * 60_000)
  await again()
  expect(asked).toHaveLength(2)
})

test("redirects are followed if they stay with https, five at most", async () => {
  const through =
    (...hops: string[]) =>
    async (): Promise<Response> => {
      const next = hops.shift()
      return next === undefined ? new Response(BYTES) : redirect(next)
    }
  expect(await open(through("https://b.example/y", "/z")).opened).toMatchObject({ hash: sha256(BYTES) })
  const local = { identifier: "http://127.0.0.1:1/x" }
  expect(await open(through("/y", "http://localhost:2/z", "https://c.example"), local).opened).toBeDefined()
  for (const hop of ["http://b.example/y", "http://127.0.0.1/y", "file:///etc/passwd", "//["])
    await expect(open(through(hop)).opened).rejects.toThrow("is not https")
  await expect(open(through("http://b.example/y"), local).opened).rejects.toThrow("is not https")
  await expect(open(async () => redirect("/again")).opened).rejects.toThrow("more than 5 times")
})

test("a bundle with another hash, with an error or too large is rejected", async () => {
  await expect(open(async () => new Response(bundleOf(2))).opened).rejects.toThrow(
    `sha256 begins with ${sha256(bundleOf(2)).slice(0, 12)}, not with ${sha256(BYTES).slice(0, 12)}`,
  )
  await expect(open(async () => new Response("", { status: 403 })).opened).rejects.toThrow("HTTP 403")
  const part = new Uint8Array(64 * 1024 * 1024)
  let sent = 0
  const endless = new ReadableStream({
    pull(controller) {
      sent++
      controller.enqueue(part)
    },
  })
  await expect(open(async () => new Response(endless)).opened).rejects.toThrow("larger than 256 MiB")
  expect(sent).toBeLessThan(10)
})

test("a stalled or cancelled download ends, and no timer stays", async () => {
  const stuck: BundleDeps["fetch"] = (_url, { signal }) =>
    Promise.resolve(
      new Response(
        new ReadableStream({
          start(controller) {
            controller.enqueue(BYTES.slice(0, 10))
            signal?.addEventListener("abort", () => controller.error(signal.reason))
          },
        }),
      ),
    )
  const { opened, clock } = open(stuck)
  const failure = opened.catch((error: unknown) => error)
  await clock.pass(30_000)
  expect(await failure).toMatchObject({ message: expect.stringContaining("no data arrived for 30 s") })
  expect(clock.timers).toBe(0)
  const given = new AbortController()
  const left = open(stuck, { signal: given.signal })
  const said = left.opened.catch((error: unknown) => error)
  given.abort()
  expect(await said).toMatchObject({ message: expect.stringContaining("the caller gave up") })
  expect(left.clock.timers).toBe(0)
})
