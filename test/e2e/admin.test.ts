/** The admin page of the built binary, in Chromium. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Browser } from "playwright-core"
import { CHROMIUM, seriousFindings, startBrowser, visit } from "./browser.ts"
import { type Instance, npmServer, SVC, startSvc } from "./harness.ts"

const DEMO = { command: SVC, args: ["demo-server"] }
const CONFIG = {
  mcpServers: {
    every: { ...npmServer("server-everything"), tags: ["work"] },
    demo: { ...DEMO, tags: ["play"] },
    off: { ...DEMO, disabled: true },
  },
}

describe.skipIf(CHROMIUM === undefined)("in the browser", () => {
  let svc: Instance
  let browser: Browser
  beforeAll(async () => {
    ;[svc, browser] = await Promise.all([startSvc({ config: CONFIG }), startBrowser()])
  })
  afterAll(async () => {
    await browser.close()
    await svc[Symbol.asyncDispose]()
  })

  test("svc admin leads to the servers, and the page loads nothing from elsewhere [admin:page]", async () => {
    await using admin = await visit(browser, svc)
    await admin.page.getByRole("link", { name: "every", exact: true }).waitFor()
    await admin.page.getByRole("row", { name: /^off/ }).getByText("disabled").waitFor()
    expect(await seriousFindings(admin.page)).toEqual([])
    expect(admin.complaints).toEqual([])
  })

  test("without a login the page says how to log in [admin:login]", async () => {
    await using context = await browser.newContext()
    const page = await context.newPage()
    await page.goto(`${svc.url}/admin`)
    await page.getByText("svc admin", { exact: true }).waitFor()
    expect(await seriousFindings(page)).toEqual([])
  })

  test("a change in an editor shows in every tab [admin:live]", async () => {
    await using one = await visit(browser, svc)
    await using other = await visit(browser, svc)
    const text = readFileSync(join(svc.folder, "mcp.json"), "utf8")
    svc.write({ ...CONFIG, mcpServers: { ...CONFIG.mcpServers, fresh: { ...DEMO, disabled: true } } })
    for (const { page } of [one, other]) await page.getByRole("link", { name: "fresh" }).waitFor()
    svc.write(text)
    for (const { page } of [one, other]) await page.getByRole("link", { name: "fresh" }).waitFor({ state: "detached" })
  })
})

test("the page and its files are sent with their policy, compressed, and without a login [admin:page]", async () => {
  await using svc = await startSvc({ config: CONFIG, flags: ["--auth"] })
  const page = await fetch(`${svc.url}/admin`)
  const html = await page.text()
  expect([page.status, page.headers.get("content-security-policy")]).toEqual([
    200,
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  ])
  const links = [...html.matchAll(/(?:src|href)="(?!data:)([^"]+)"/g)].map(([, link = ""]) => link)
  expect(links.map((link) => link.replace(/.*\./, "")).sort()).toEqual(["css", "js"])
  let size = html.length
  for (const link of links) {
    const file = await fetch(new URL(link, `${svc.url}/admin/`), {
      decompress: false,
      headers: { "accept-encoding": "gzip" },
    })
    expect([file.status, file.headers.get("content-encoding"), file.headers.get("x-content-type-options")]).toEqual([
      200,
      "gzip",
      "nosniff",
    ])
    size += (await file.bytes()).length
  }
  expect(size).toBeLessThan(120_000)
  expect((await fetch(`${svc.url}/admin/none.js`)).status).toBe(404)
  expect((await fetch(`${svc.url}/admin/`, { method: "POST" })).status).toBe(405)
})
