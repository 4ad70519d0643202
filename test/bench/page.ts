/**
 * Measures in Chromium how long the admin page takes with fifty servers and a thousand tools, and how much it loads:
 * `bun test/bench/page.ts`. A view counts as drawn one frame after its rows are there, from the start of the navigation; the
 * page is loaded anew each time.
 */
import type { Page } from "playwright-core"
import { CHROMIUM, startBrowser, visit } from "../e2e/browser.ts"
import { eventually, startSvc } from "../e2e/harness.ts"
import { digits } from "./figure.ts"
import { serversOf } from "./lists.ts"
import { quantile } from "./rig.ts"

const SERVERS = 50
const TOOLS = 1000
const ROUNDS = 9

/** Sets `drawn` when the rows of a table are there, and `found` when a search has left one of them. */
const WATCH = `
  new MutationObserver(() => {
    const rows = document.querySelectorAll("tbody tr").length
    if (rows >= 50 && globalThis.drawn === undefined)
      requestAnimationFrame(() => { globalThis.drawn ??= performance.now() })
    if (rows === 1 && globalThis.typed !== undefined && globalThis.found === undefined)
      requestAnimationFrame(() => { globalThis.found ??= performance.now() })
  }).observe(document, { childList: true, subtree: true })
  addEventListener("input", () => { globalThis.typed ??= performance.now() }, true)`

/** Returns when a view was drawn, and how long its search took, in milliseconds. */
async function measureView(page: Page, label: string, text: string) {
  await page.reload()
  const drawn = await eventually(() => page.evaluate("globalThis.drawn") as Promise<number | undefined>)
  await page.getByLabel(label).fill(text)
  await eventually(() => page.evaluate("globalThis.found"))
  return { drawn, search: (await page.evaluate("found - typed")) as number }
}

/** Returns the names of the files that the page loads. */
async function linksOf(url: string): Promise<readonly string[]> {
  const html = await (await fetch(`${url}/admin/`)).text()
  return [...html.matchAll(/(?:src|href)="(?!data:)\.?\/?(?:admin\/)?([^"]+)"/g)].map(([, link = ""]) => link)
}

if (CHROMIUM === undefined) throw new Error("Chromium is not installed")
const config = { mcpServers: serversOf(SERVERS, TOOLS / SERVERS) }
await using svc = await startSvc({ config })
await svc.said(/s49: connected/)
const browser = await startBrowser()
let bytes = 0
for (const file of ["", ...(await linksOf(svc.url))]) {
  const headers = { "accept-encoding": "gzip" }
  bytes += (await (await fetch(`${svc.url}/admin/${file}`, { decompress: false, headers })).bytes()).length
}
process.stdout.write(`the files of the page: ${digits(bytes / 1000)} KB compressed\n`)
const admin = await visit(browser, svc)
await admin.page.addInitScript(WATCH)
for (const [view, label, text] of [
  ["servers", "Search servers", "s49"],
  ["tools", "Search tools", "s49 echo14"],
] as const) {
  const rounds: Awaited<ReturnType<typeof measureView>>[] = []
  for (let round = 0; round < ROUNDS; round++) {
    // The address has the search of the round before.
    await admin.show(view)
    rounds.push(await measureView(admin.page, label, text))
  }
  const said = (values: readonly number[]) =>
    `${digits(quantile(values, 0))} ms at best, ${digits(quantile(values, 0.5))} ms in the middle`
  process.stdout.write(`${view}: drawn after ${said(rounds.map(({ drawn }) => drawn))}\n`)
  process.stdout.write(`${view}: searched in ${said(rounds.map(({ search }) => search))}\n`)
}
await browser.close()
