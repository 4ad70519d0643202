/** The tables, the keyboard and the forms of the admin page, in Chromium. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { CHROMIUM, seriousFindings, startBrowser, type Visit, visit } from "./browser.ts"
import { eventually, fixture, type Instance, startSvc } from "./harness.ts"

const echo = (tools: number) => ({ command: "bun", args: [fixture("echo.ts"), "--tools", String(tools)] })
const CONFIG = {
  mcpServers: {
    many: { ...echo(200), tags: ["bulk"] },
    few: { ...echo(3), tags: ["play", "small"] },
    pair: { ...echo(12), tags: ["play"] },
    off: { ...echo(1), disabled: true },
  },
}

describe.skipIf(CHROMIUM === undefined)("in the browser", () => {
  let svc: Instance
  let browser: Browser
  let admin: Visit
  let page: Page

  beforeAll(async () => {
    ;[svc, browser] = await Promise.all([startSvc({ config: CONFIG }), startBrowser()])
    admin = await visit(browser, svc)
    page = admin.page
  })
  afterAll(async () => {
    const complaints = admin.complaints
    await admin[Symbol.asyncDispose]()
    await browser.close()
    await svc[Symbol.asyncDispose]()
    expect(complaints).toEqual([])
  })

  const written = (): Record<string, Record<string, unknown>> =>
    JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8")).mcpServers
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: true })
  const row = (name: string | RegExp) => page.getByRole("row", { name })
  const isSaid = (text: string | RegExp) => page.locator(".notices").getByText(text).waitFor()
  const bar = () => page.getByRole("group", { name: "Selected rows" })
  /** Waits until the first column shows these names, in this order. */
  const isShown = async (...names: string[]) => {
    const read = () => page.locator("tbody th a:not(.crumb)").allTextContents()
    await eventually(async () => (await read()).slice(0, names.length).join() === names.join()).catch(() => undefined)
    expect((await read()).slice(0, names.length)).toEqual(names)
  }
  const sortOf = (title: string) => page.getByRole("columnheader", { name: title }).getAttribute("aria-sort")

  test("a table is sorted by a column, in both directions [admin:servers]", async () => {
    await row(/^pair/).getByText("connected").waitFor()
    await isShown("few", "many", "off", "pair")
    await button("Tools").click()
    await isShown("off", "few", "pair", "many")
    expect([await sortOf("Tools"), await sortOf("Server")]).toEqual(["ascending", "none"])
    await button("Tools").focus()
    await page.keyboard.press("Enter")
    await isShown("many", "pair", "few", "off")
    expect(await sortOf("Tools")).toBe("descending")
    await button("State").click()
    await isShown("few", "many", "pair", "off")
    await button("Server").click()
    await button("Server").click()
    await isShown("pair", "off", "many", "few")
  })

  test("the head of a long table stays visible [admin:tools]", async () => {
    await admin.show("servers/many/tools")
    const table = page.getByRole("region", { name: "Tools" })
    const head = table.getByRole("columnheader", { name: "Tokens" })
    await head.waitFor()
    const scrolled = await table.evaluate((element) => {
      const scroller = element as unknown as { scrollTop: number; scrollHeight: number }
      scroller.scrollTop = scroller.scrollHeight
      return scroller.scrollTop
    })
    expect(scrolled).toBeGreaterThan(100)
    const [box, headBox] = [await table.boundingBox(), await head.boundingBox()]
    expect(Math.abs((headBox?.y ?? 0) - (box?.y ?? 0))).toBeLessThan(3)
    // Numbers in names count as numbers.
    await button("Tool").click()
    await isShown("echo", "echo1", "echo2", "echo3")
  })

  test("a tag filters the servers, also after a reload, until the filter is removed [admin:find]", async () => {
    await admin.show("servers")
    await row(/^few/).getByRole("button", { name: "play" }).click()
    await isShown("few", "pair")
    expect(await page.locator("tbody tr").count()).toBe(2)
    expect(page.url()).toEndWith("#/servers?tag=play")
    await page.reload()
    await isShown("few", "pair")
    expect(await page.locator("tbody tr").count()).toBe(2)
    await button(/Remove the filter: tag play/).click()
    await isShown("few", "many", "off", "pair")
    expect(page.url()).toEndWith("#/servers")
  })

  test("selected servers are disabled and enabled together [admin:servers]", async () => {
    await admin.show("servers")
    const select = (name: string) => page.getByRole("checkbox", { name, exact: true })
    for (const name of ["few", "off", "pair"]) await select(name).check()
    await bar().getByText("3 servers").waitFor()
    await bar().getByRole("button", { name: "Clear" }).click()
    await bar().waitFor({ state: "detached" })
    expect(await select("few").isChecked()).toBe(false)
    for (const name of ["few", "pair"]) await select(name).check()
    expect(await bar().getByRole("button", { name: "Enable" }).isDisabled()).toBe(true)
    expect(await seriousFindings(page)).toEqual([])
    await bar().getByRole("button", { name: "Disable" }).click()
    await isSaid("2 servers disabled")
    expect([written().few?.disabled, written().pair?.disabled, written().many?.disabled]).toEqual([
      true,
      true,
      undefined,
    ])
    await bar().waitFor({ state: "detached" })
    for (const name of ["few", "pair"]) await select(name).check()
    await bar().getByRole("button", { name: "Enable" }).click()
    await isSaid("2 servers enabled")
    for (const name of [/^few/, /^pair/]) await row(name).getByText("connected").waitFor()
    await select("few").check()
    await bar().getByRole("button", { name: "Restart" }).click()
    await isSaid("1 server restarted")
  })

  test("the actions for the selection stay on the screen of a telephone [admin:access]", async () => {
    await page.setViewportSize({ width: 390, height: 700 })
    await admin.show("tools")
    await page.getByRole("checkbox", { name: "Select echo2", exact: true }).first().check()
    await page.evaluate("scrollTo(0, 0)")
    const box = await bar().boundingBox()
    expect((box?.y ?? 0) + (box?.height ?? 1000)).toBeLessThanOrEqual(700)
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true)
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  test("a switch shows or hides one tool, and the selection stays [admin:tools]", async () => {
    await admin.show("servers/few/tools")
    const visibility = page.getByRole("switch", { name: "Show echo2 to clients" })
    await page.getByRole("checkbox", { name: "Select echo1" }).check()
    expect(await visibility.getAttribute("aria-checked")).toBe("true")
    await visibility.click()
    await row(/^Select echo2/)
      .getByText("hidden")
      .waitFor()
    expect([await visibility.getAttribute("aria-checked"), written().few?.disabledTools]).toEqual(["false", ["echo2"]])
    await bar().getByText("1 tool").waitFor()
    expect(await page.getByRole("checkbox", { name: "Select echo1" }).isChecked()).toBe(true)
    await button("Clients see").click()
    await isShown("echo", "echo1", "echo2")
    await button("Clients see").click()
    await isShown("echo2", "echo", "echo1")
    await visibility.focus()
    await page.keyboard.press("Space")
    await eventually(async () => (await visibility.getAttribute("aria-checked")) === "true")
    expect(written().few?.disabledTools ?? []).toEqual([])
    await button("Clear").click()
  })
})
