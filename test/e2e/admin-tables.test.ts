/** The tables, the keyboard and the forms of the admin page, in Chromium. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Ajv2020 } from "ajv/dist/2020.js"
import addFormats from "ajv-formats"
import type { Browser, Page } from "playwright-core"
import { CHROMIUM, seriousFindings, startBrowser, type Visit, visit } from "./browser.ts"
import { eventually, fixture, freshFolder, type Instance, npmServer, startSvc } from "./harness.ts"

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

  test("no table of servers is wider than the screen [admin:access]", async () => {
    for (const width of [1280, 1101, 1100, 768, 390]) {
      await page.setViewportSize({ width, height: 800 })
      const table = page.getByRole("group", { name: "Servers" })
      await table.waitFor()
      expect([width, await table.evaluate((one) => one.scrollWidth - one.clientWidth)]).toEqual([width, 0])
      if (width > 760) expect(await page.getByRole("button", { name: "Restart pair" }).isVisible()).toBe(true)
    }
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  test("the head of a long table stays visible [admin:tools]", async () => {
    await admin.show("servers/many/tools")
    const table = page.getByRole("group", { name: "Tools" })
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

  test("selected servers are removed together after a question, and the page of a removed one is left [admin:servers]", async () => {
    const whole = JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8"))
    const spare = { ...echo(1), disabled: true }
    svc.write({ mcpServers: { ...whole.mcpServers, one: spare, two: spare, three: spare } })
    await admin.show("servers")
    for (const name of ["one", "two"]) await page.getByRole("checkbox", { name, exact: true }).check()
    await bar().getByRole("button", { name: "Remove" }).click()
    const dialog = page.getByRole("dialog", { name: "Remove 2 servers?" })
    await dialog.getByText(/one, two/).waitFor()
    await dialog.getByRole("button", { name: "Cancel" }).click()
    expect(Object.keys(written())).toEqual(expect.arrayContaining(["one", "two"]))
    await bar().getByRole("button", { name: "Remove" }).click()
    await dialog.getByRole("button", { name: "Remove" }).click()
    await isSaid("2 servers removed")
    await row(/^two/).waitFor({ state: "detached" })
    expect(Object.keys(written())).toEqual(["many", "few", "pair", "off", "three"])
    await bar().waitFor({ state: "detached" })

    await page.getByRole("link", { name: "three", exact: true }).click()
    await page.getByRole("heading", { name: "Effective settings" }).waitFor()
    await page.evaluate(`
      globalThis.seen = []
      new MutationObserver(() => seen.push(document.querySelector("main").innerText)).observe(
        document.querySelector("main"), { childList: true, subtree: true, characterData: true })`)
    await button("Remove three").click()
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
    await isSaid("three was removed")
    await row(/^three/).waitFor({ state: "detached" })
    const seen = (await page.evaluate("seen")) as readonly string[]
    expect(seen.filter((text) => /No server is named/.test(text))).toEqual([])
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
    expect(await visibility.getAttribute("aria-checked")).toBe("false")
    await eventually(() => written().few?.disabledTools !== undefined)
    expect(written().few?.disabledTools).toEqual(["echo2"])
    await bar().getByText("1 tool").waitFor()
    expect(await page.getByRole("checkbox", { name: "Select echo1" }).isChecked()).toBe(true)
    await button("Clients see").click()
    await isShown("echo", "echo1", "echo2")
    await button("Clients see").click()
    await isShown("echo2", "echo", "echo1")
    await visibility.focus()
    await page.keyboard.press("Space")
    await eventually(async () => (await visibility.getAttribute("aria-checked")) === "true")
    await eventually(() => written().few?.disabledTools === undefined)
    await button("Clear").click()
  })

  test("a switch turns at once, and back with a message if the change is refused, or silently if it is not confirmed [admin:tools]", async () => {
    // The switch of the test before may still be busy.
    await admin.show("servers")
    await row(/^few/).waitFor()
    await admin.show("servers/few/tools")
    const visibility = page.getByRole("switch", { name: "Show echo2 to clients" })
    const isTurned = (on: string) => eventually(async () => (await visibility.getAttribute("aria-checked")) === on)
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    await page.route(/api\/v1\/tools$/, async (route) => {
      await held
      await route.fulfill({ status: 409, contentType: "application/json", body: '{"detail":"the file is broken"}' })
    })
    await visibility.click()
    await isTurned("false")
    await row(/^Select echo2/)
      .getByText("hidden")
      .waitFor()
    release()
    await isSaid("echo2 is still visible: the file is broken")
    await isTurned("true")
    await row(/^Select echo2/)
      .getByText("visible")
      .waitFor()
    await page.unroute(/api\/v1\/tools$/)
    const refusal = page.locator(".notices .note", { hasText: "is still" })
    await refusal.getByRole("button", { name: "Close this notice" }).click()

    for (const name of ["echo", "echo1"]) {
      await page.getByRole("switch", { name: `Show ${name} to clients` }).click()
      await eventually(() => JSON.stringify(written().few?.disabledTools ?? []).includes(`"${name}"`))
    }
    await visibility.click()
    await page
      .getByRole("dialog")
      .getByText(/few would no longer offer any tool/)
      .waitFor()
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click()
    await isTurned("true")
    expect(written().few?.disabledTools).toEqual(["echo", "echo1"])
    expect(await refusal.count()).toBe(0)
    for (const name of ["echo", "echo1"]) {
      await page.getByRole("switch", { name: `Show ${name} to clients` }).click()
      await eventually(() => !JSON.stringify(written().few?.disabledTools ?? []).includes(`"${name}"`))
    }
  })

  test("the command palette leads to views, servers, tools and the form of a new server [admin:find]", async () => {
    await admin.show("servers")
    await row(/^few/).waitFor()
    const field = page.getByRole("combobox", { name: "View, server, tool or action" })
    const title = (text: string) => page.getByRole("heading", { level: 1, name: text }).waitFor()
    const go = async (text: string, option: string | RegExp) => {
      await page.keyboard.press("Control+k")
      await field.fill(text)
      await page.getByRole("dialog").getByRole("option", { name: option, selected: true }).waitFor()
      await page.keyboard.press("Enter")
      await field.waitFor({ state: "detached" })
    }
    await go("sess", "Sessions view")
    await title("Sessions")
    await go("few server", "few server")
    await title("Servers / few")
    expect(await page.evaluate("document.activeElement?.tagName")).toBe("H1")
    await go("echo11 pair", /echo11 tool of pair/)
    await title("pair / echo11")
    await go("add", "Add a server action")
    await title("Add a server")
    await page.keyboard.press("Control+k")
    await field.fill("pair")
    const option = (name: string, selected: boolean) =>
      page.getByRole("dialog").getByRole("option", { name, exact: true, selected })
    await option("pair server", true).waitFor()
    await option("echo tool of pair", false).waitFor()
    await page.keyboard.press("ArrowDown")
    await option("echo tool of pair", true).waitFor()
    const active = await option("echo tool of pair", true).getAttribute("id")
    expect(await field.getAttribute("aria-activedescendant")).toBe(active)
    await page.keyboard.press("ArrowUp")
    await option("pair server", true).waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await field.fill("no-such-thing")
    await page.getByText("Nothing has these words.").waitFor()
    await page.keyboard.press("Escape")
    await field.waitFor({ state: "detached" })
    await title("Add a server")
  })

  test("the key ? lists the shortcuts, except while a person types [admin:access]", async () => {
    await admin.show("servers")
    await page.getByLabel("Search servers").fill("")
    await page.getByLabel("Search servers").press("?")
    expect(await page.getByLabel("Search servers").inputValue()).toBe("?")
    expect(await page.getByRole("dialog").count()).toBe(0)
    await page.getByLabel("Search servers").fill("")
    await page.getByRole("heading", { name: "Servers" }).focus()
    await page.keyboard.press("?")
    await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("Search in this view").waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 800 })
    const over = `[...document.querySelectorAll("dialog dt")].filter(
      (term) => term.firstElementChild.getBoundingClientRect().right > term.nextElementSibling.getBoundingClientRect().left)`
    expect(await page.evaluate(`${over}.length`)).toBe(0)
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.keyboard.press("Escape")
    await page.getByRole("dialog").waitFor({ state: "detached" })
  })

  test("Enter in a search opens the hit, if there is only one [admin:find]", async () => {
    await admin.show("servers")
    const field = page.getByLabel("Search servers")
    await field.fill("play")
    await isShown("few", "pair")
    await field.press("Enter")
    expect(page.url()).toEndWith("#/servers")
    await field.fill("small")
    await isShown("few")
    await field.press("Enter")
    await page.getByRole("heading", { name: "Servers / few" }).waitFor()
    await admin.show("tools")
    await page.getByLabel("Search tools").fill("pair echo11")
    await page.getByText("Select all 1 tool").waitFor()
    await page.getByLabel("Search tools").press("Enter")
    await page.getByRole("heading", { name: "pair / echo11" }).waitFor()
    await admin.show("search?q=echo11")
    await page.getByText(/best first/).waitFor()
    const count = await page.locator("tbody tr").count()
    await page.getByLabel("What should the tool do?").press("Enter")
    if (count === 1) await page.getByRole("heading", { name: /echo11/ }).waitFor()
    else expect(page.url()).toEndWith("q=echo11")
  })

  test("the title of the document names the server or the tool [admin:page]", async () => {
    const isTitled = async (title: string) => {
      await eventually(async () => (await page.title()) === title).catch(() => undefined)
      expect(await page.title()).toBe(title)
    }
    for (const [route, title] of [
      ["servers", "Servers · svc"],
      ["servers/few/settings", "few · svc"],
      ["tools", "Tools · svc"],
      ["tools/few_svc_echo2", "echo2 · svc"],
      ["tools/few_svc_echo1", "echo1 · svc"],
      ["servers/add", "Servers · svc"],
    ] as const) {
      await admin.show(route)
      await isTitled(title)
    }
  })

  test("a search says that nothing matches only after the answer, and keeps the list until then [admin:search]", async () => {
    await admin.show("search")
    const field = page.getByLabel("What should the tool do?")
    await page.getByText("Type a few words").waitFor()
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    await page.route(/api\/v1\/search/, async (route) => {
      await held
      await route.continue()
    })
    const asked = page.waitForRequest(/search\?q=argument/)
    // Records every text, because a flash of one frame would escape a look at the end.
    await page.evaluate(`
      globalThis.seen = []
      new MutationObserver(() => seen.push(document.querySelector("main").innerText)).observe(
        document.querySelector("main"), { childList: true, subtree: true, characterData: true })`)
    await field.fill("argument")
    await asked
    await page.getByText("Searching …").waitFor()
    release()
    await page.getByText(/best first/).waitFor()
    await page.unroute(/api\/v1\/search/)
    const rows = await page.locator("tbody tr").count()
    const { promise: heldAgain, resolve: releaseAgain } = Promise.withResolvers<void>()
    await page.route(/api\/v1\/search/, async (route) => {
      await heldAgain
      await route.continue()
    })
    const askedAgain = page.waitForRequest(/search\?q=zzzz/)
    await field.fill("zzzzqqqq")
    await askedAgain
    expect(await page.locator("tbody tr").count()).toBe(rows)
    const seen = (await page.evaluate("seen")) as readonly string[]
    expect(seen.length).toBeGreaterThan(0)
    expect(seen.filter((text) => text.includes("No tool matches"))).toEqual([])
    releaseAgain()
    await page.getByText("No tool matches.").waitFor()
    await page.unroute(/api\/v1\/search/)
  })

  test("an empty page names the next step [admin:page]", async () => {
    await using empty = await startSvc({ config: { mcpServers: {} } })
    await using tab = await visit(browser, empty)
    for (const view of ["tools", "logs"]) {
      await tab.show(view)
      const link = tab.page.locator("main .empty").getByRole("link", { name: "Add a server" })
      await link.waitFor()
      expect([view, await link.getAttribute("href")]).toEqual([view, "#/servers/add"])
    }
    await admin.show("logs")
    await page.getByLabel("Search the log").fill("nothing says this")
    await button("Show all lines").click()
    await page
      .getByRole("log")
      .getByText(/connected: 3 tools/)
      .first()
      .waitFor()
    await admin.show("tools?q=no-such-word&server=few")
    await button("Show all tools").click()
    await page.getByText(/Select all \d+ tools/).waitFor()
  })

  test("a notice covers no part of a view, and on a telephone nothing that cannot be scrolled from under it [admin:access]", async () => {
    await page.route(/api\/v1\/servers\/few\/restart/, (route) =>
      route.fulfill({
        status: 500,
        contentType: "application/json",
        body: JSON.stringify({ detail: "no. ".repeat(90) }),
      }),
    )
    for (const width of [1280, 768, 390]) {
      await page.setViewportSize({ width, height: 700 })
      await admin.show("servers/few")
      await button("Restart few").click()
      const notice = page.locator(".notices .note", { hasText: "no. no." })
      await notice.waitFor()
      const place = await notice.boundingBox()
      const view = await page.locator("main").boundingBox()
      if (width > 760) {
        expect((place?.x ?? 0) + (place?.width ?? 0)).toBeLessThanOrEqual(view?.x ?? 0)
        // A click reaches only what no other element covers.
        for (const name of ["dark", "system"]) await page.getByText(name, { exact: true }).click()
        await page.getByRole("button", { name: "Log out" }).click({ trial: true })
      } else {
        await page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        const end = await page.getByText(/^Defaults \(/).boundingBox()
        const top = (await page.locator(".notices").boundingBox())?.y ?? 0
        expect((end?.y ?? 0) + (end?.height ?? 0)).toBeLessThanOrEqual(top)
      }
      await notice.getByRole("button", { name: "Close this notice" }).click()
    }
    await page.unroute(/api\/v1\/servers\/few\/restart/)
    await page.setViewportSize({ width: 1280, height: 800 })
  })

  test("a notice shows above an open dialog, and can be closed there [admin:access]", async () => {
    await admin.show("servers")
    await page.route(/api\/v1\/servers\/few\/restart/, (route) =>
      route.fulfill({ status: 500, contentType: "application/json", body: '{"detail":"it does not restart"}' }),
    )
    await button("Restart few").click()
    await isSaid("it does not restart")
    await page.keyboard.press("?")
    const dialog = page.getByRole("dialog", { name: "Keyboard shortcuts" })
    await dialog.getByText("it does not restart").waitFor()
    expect(await page.getByText("it does not restart").count()).toBe(1)
    // A click reaches only what no other element covers.
    const notice = dialog.locator(".note", { hasText: "it does not restart" })
    await notice.getByRole("button", { name: "Close this notice" }).click()
    await page.getByText("it does not restart").waitFor({ state: "detached" })
    await page.keyboard.press("Escape")
    await dialog.waitFor({ state: "detached" })
    await page.unroute(/api\/v1\/servers\/few\/restart/)
  })

  test("the form of a server says what to enter as arguments, variables and headers [admin:edit]", async () => {
    for (const route of ["servers/add", "servers/few/settings"]) {
      await admin.show(route)
      const group = (name: string) => page.getByRole("group", { name, exact: true })
      await group("Arguments (args)")
        .getByText(/^One argument per field, without quotes/)
        .waitFor()
      await group("Environment variables (env)")
        .getByText(/\$\{NAME\} stands for a secret/)
        .waitFor()
    }
    await admin.show("servers/add")
    await page.getByLabel("Kind").selectOption("url")
    await page
      .getByRole("group", { name: "Headers (headers)" })
      .getByText(/^A name such as Authorization/)
      .waitFor()
    await admin.show("servers")
  })

  test("Enter and several pasted lines add rows to a list, and the focus follows [admin:edit]", async () => {
    await admin.show("servers/add")
    await button("Add to args").click()
    const focused = () => page.evaluate("document.activeElement?.ariaLabel")
    const isFocused = async (label: string) => {
      await eventually(async () => (await focused()) === label).catch(() => undefined)
      expect(await focused()).toBe(label)
    }
    const values = () =>
      page
        .getByRole("group", { name: "Arguments (args)", exact: true })
        .getByRole("textbox")
        .evaluateAll((fields) => fields.map((field) => (field as unknown as { value: string }).value))
    await isFocused("args 1")
    await page.keyboard.type("one")
    await page.keyboard.press("Enter")
    await isFocused("args 2")
    await page.keyboard.type("last")
    await page.getByLabel("args 1", { exact: true }).focus()
    await page.keyboard.press("Enter")
    await isFocused("args 2")
    expect(await values()).toEqual(["one", "", "last"])
    // The clipboard of a headless browser needs a permission; the event is what a person's paste sends.
    await page.evaluate(`
      const data = new DataTransfer()
      data.setData("text", "two\\nthree\\r\\n\\nfour\\n")
      document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }))`)
    await isFocused("args 4")
    expect(await values()).toEqual(["one", "two", "three", "four", "last"])
    expect(page.url()).toEndWith("#/servers/add")
  })

  test("a row that nobody has filled in is not written, and Enter in a field of one line saves [admin:edit]", async () => {
    // The form of the test before may be open, with its entries.
    await admin.show("servers")
    await admin.show("servers/add")
    await page.getByLabel("Name", { exact: true }).fill("typed")
    const program = page.getByLabel("Program (command)")
    await program.fill("bun")
    await button("Add to args").click()
    for (const arg of [fixture("echo.ts"), "--tools", "2"]) {
      await page.keyboard.type(arg)
      await page.keyboard.press("Enter")
    }
    await page.getByLabel("args 4", { exact: true }).waitFor()
    await program.press("Enter")
    await isSaid(/typed was added/)
    expect(written().typed).toEqual({ command: "bun", args: [fixture("echo.ts"), "--tools", "2"] })
    await admin.show("servers/typed/settings")
    await page.getByLabel("args 3", { exact: true }).fill("1")
    await page.getByLabel("Working folder (cwd)").press("Enter")
    await isSaid("typed was saved")
    expect(written().typed?.args).toEqual([fixture("echo.ts"), "--tools", "1"])
    await button("Remove typed").click()
    await button("Remove").click()
    await isSaid("typed was removed")
  })

  test("a result that a server also gives as text is shown once, and comes into sight [admin:try]", async () => {
    const config = { mcpServers: { files: npmServer("server-filesystem", "/usr/share") } }
    await using files = await startSvc({ config })
    await using tab = await visit(browser, files, { viewport: { width: 1280, height: 500 } })
    await tab.show("tools/files_svc_list_allowed_directories")
    await tab.page.getByRole("button", { name: "Call list_allowed_directories" }).click()
    const shown = tab.page.getByRole("region", { name: "Result" }).getByText("/usr/share")
    await eventually(async () => (await shown.count()) === 1)
    await eventually(() => tab.page.evaluate("scrollY > 0") as Promise<boolean>)
  })

  describe("a tool with a schema of many kinds", () => {
    let kinds: Instance
    let tab: Visit
    const ITEM = {
      type: "object",
      required: ["sku", "count"],
      properties: {
        sku: { type: "string", minLength: 12 },
        count: { type: "integer", minimum: 2, multipleOf: 5 },
        parts: { type: "array", items: { $ref: "#/$defs/item" } },
        maker: { anyOf: [{ $ref: "#/$defs/maker" }, { type: "null" }] },
      },
    }
    const SCHEMA = {
      type: "object",
      required: ["items", "level", "when", "share", "flags", "owner", "note"],
      properties: {
        items: { type: "array", minItems: 2, items: { $ref: "#/$defs/item" } },
        level: { enum: ["low", "high"] },
        when: { type: "string", format: "date-time" },
        share: { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 },
        flags: { type: "array", items: { enum: ["a", "b"] } },
        owner: { $ref: "#/$defs/maker" },
        note: { type: "string", examples: ["a note"] },
        more: { type: "integer" },
      },
      $defs: { item: ITEM, maker: { type: "object", required: ["name"], properties: { name: { type: "string" } } } },
    }

    beforeAll(async () => {
      const file = join(freshFolder(), "entries.json")
      const tools = [{ name: "order", description: "Orders", inputSchema: SCHEMA }]
      writeFileSync(file, JSON.stringify({ tools, prompts: [], resources: [], resourceTemplates: [] }))
      kinds = await startSvc({
        config: { mcpServers: { shop: { command: "bun", args: [fixture("defined.ts"), file] } } },
      })
      tab = await visit(browser, kinds)
    })
    afterAll(async () => {
      const { complaints } = tab
      await tab[Symbol.asyncDispose]()
      await kinds[Symbol.asyncDispose]()
      expect(complaints).toEqual([])
    })

    const press = (name: string) => tab.page.getByRole("button", { name, exact: true }).click()
    /** Opens the form without what was entered before: the list has to show in between. */
    const openAnew = async () => {
      await tab.show("tools")
      await tab.page.getByRole("heading", { name: "Tools", exact: true }).waitFor()
      await tab.show("tools/shop_svc_order")
    }
    /** Calls the tool and returns the arguments that the page sent. */
    const sent = async (): Promise<Record<string, unknown>> => {
      const request = tab.page.waitForRequest(/order\/call$/)
      await press("Call order")
      return (await request).postDataJSON().arguments
    }

    test("a call without a required argument is not sent, and the first such field gets the focus [admin:try]", async () => {
      await tab.show("tools/shop_svc_order")
      const calls: string[] = []
      tab.page.on("request", (request) => /order\/call$/.test(request.url()) && calls.push(request.url()))
      const said = tab.page.getByText("Required.")
      await tab.page.getByLabel("note (required)").waitFor()
      expect(await said.count()).toBe(0)
      await press("Call order")
      // items, level, when, share, flags, owner's name, note
      await eventually(async () => (await said.count()) === 7)
      expect(await tab.page.evaluate("document.activeElement?.ariaLabel")).toBe("Add to items")
      expect(await seriousFindings(tab.page)).toEqual([])
      await press("Insert example")
      await said.first().waitFor({ state: "detached" })
      await tab.page.getByLabel("share (required)").fill("")
      await press("Call order")
      await tab.page.locator("input[aria-invalid=true][aria-required=true]:focus").waitFor()
      expect(calls).toEqual([])
      await tab.page.getByLabel("share (required)").fill("0.5")
      expect(await sent()).toMatchObject({ share: 0.5 })
      // As JSON, a person may send what the schema refuses.
      await press("JSON")
      await tab.page.getByLabel("Arguments, as JSON").fill("{}")
      expect(await sent()).toEqual({})
    })

    test("an example fills the required arguments with values that the schema accepts [admin:try]", async () => {
      await openAnew()
      await tab.page.getByLabel("note (required)").fill("mine")
      await press("Insert example")
      await eventually(async () => (await tab.page.getByLabel("items 2", { exact: false }).count()) > 0)
      const args = await sent()
      expect(Object.keys(args).sort()).toEqual([...SCHEMA.required].sort())
      expect([args.note, args.level]).toEqual(["mine", "low"])
      const accepts = addFormats.default(new Ajv2020({ strict: false })).compile(SCHEMA)
      accepts(args)
      expect(accepts.errors).toBeNull()
    })

    test("a list of objects, and an object in an object, have their own form [admin:try]", async () => {
      await openAnew()
      await press("Insert example")
      const items = tab.page.getByRole("group", { name: "items (required)" })
      const first = items.getByRole("group", { name: "items 1 (required)" })
      await first.getByLabel("sku (required)").fill("first-article")
      await press("Remove items 2")
      await items.getByRole("group", { name: "items 2 (required)" }).waitFor({ state: "detached" })
      await first.getByRole("button", { name: "Add maker" }).click()
      await first.getByLabel("name (required)").fill("Somebody")
      await first.getByRole("button", { name: "Add to parts" }).click()
      // A new row is empty: it would else send what nobody has entered.
      const part = first.getByRole("group", { name: "parts 1 (required)" })
      expect(await part.getByLabel("sku (required)").inputValue()).toBe("")
      await press("Call order")
      await part.locator("[aria-required=true][aria-invalid=true]:focus").waitFor()
      await part.getByLabel("sku (required)").fill("second-article")
      await part.getByLabel("count (required)").fill("15")
      await tab.page.getByRole("button", { name: "Add to flags" }).click()
      await tab.page.getByLabel("flags 1 (required)").selectOption("b")
      expect(await seriousFindings(tab.page)).toEqual([])
      expect(await sent()).toMatchObject({
        items: [
          {
            sku: "first-article",
            count: 5,
            maker: { name: "Somebody" },
            parts: [{ sku: "second-article", count: 15 }],
          },
        ],
        flags: ["b"],
      })
      // The schema of a part contains itself: below the fourth level, the form shows JSON.
      await first.getByRole("group", { name: "parts 1 (required)" }).getByLabel("parts, as JSON").waitFor()
    })

    test("Enter makes a line in the text of an argument, and Ctrl Enter calls the tool [admin:try]", async () => {
      await openAnew()
      await press("Insert example")
      const note = tab.page.getByLabel("note (required)")
      await note.fill("one")
      await note.press("Enter")
      await note.pressSequentially("two")
      const request = tab.page.waitForRequest(/order\/call$/)
      await note.press("Control+Enter")
      expect((await request).postDataJSON().arguments.note).toBe("one\ntwo")
    })

    test("the failure of a call stands beside its button [admin:try]", async () => {
      await tab.page.route(/order\/call$/, (route) =>
        route.fulfill({ status: 502, contentType: "application/json", body: '{"detail":"the shop is closed"}' }),
      )
      await press("Call order")
      await tab.page.locator("form").getByRole("alert").getByText("the shop is closed").waitFor()
      expect(await tab.page.locator(".notices").getByText("the shop is closed").count()).toBe(0)
      await tab.page.unroute(/order\/call$/)
      await press("Call order")
      await tab.page.locator("form").getByRole("alert").waitFor({ state: "detached" })
    })
  })
})
