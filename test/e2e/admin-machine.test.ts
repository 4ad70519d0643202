/** The admin page of the built binary for a person who only clicks: begin, connect, mend, choose, undo. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { token } from "./api.ts"
import { CHROMIUM, seriousFindings, startBrowser, type Visit, visit } from "./browser.ts"
import { eventually, fixture, freshEnv, freshFolder, type Instance, npmServer, SVC, startSvc } from "./harness.ts"

const KEY = "ghp_0123456789012345678901234567890123ab"
const DEMO = { command: SVC, args: ["demo-server"] }
const NEEDY = { command: "sh", args: ["-c", "echo the database is missing >&2; exit 3"] }
const reference = (name: string) => `${"$"}{${name}}`

describe.skipIf(CHROMIUM === undefined)("in the browser of a new user", () => {
  let home: string
  let cursor: string
  let svc: Instance
  let browser: Browser
  let admin: Visit
  let page: Page

  beforeAll(async () => {
    home = freshFolder()
    cursor = join(home, ".cursor", "mcp.json")
    mkdirSync(join(home, ".cursor"))
    const echo = { command: "bun", args: [fixture("echo.ts"), "--tools", "3"], env: { GITHUB_TOKEN: KEY } }
    const local = { [home]: { mcpServers: { local: { command: "bun", args: [fixture("echo.ts")] } } } }
    writeFileSync(join(home, ".claude.json"), JSON.stringify({ projects: local }))
    writeFileSync(cursor, JSON.stringify({ mcpServers: { echo, every: npmServer("server-everything") } }, null, 2))
    ;[svc, browser] = await Promise.all([startSvc({ config: { mcpServers: {} }, env: freshEnv(home) }), startBrowser()])
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

  const written = () => JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8")).mcpServers
  const presets = () => JSON.parse(readFileSync(join(svc.folder, "presets.json"), "utf8")).presets
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: true })
  const link = (name: string | RegExp) => page.getByRole("link", { name, exact: true })
  const row = (name: string | RegExp) => page.getByRole("row", { name })
  const isSaid = (text: string | RegExp) => page.locator(".notices").getByText(text).waitFor()

  /** Records the texts of the view from now on, because a flash of one frame would escape a look at the end. */
  const watchTexts = async (pattern: RegExp) => {
    await page.evaluate(`
      globalThis.seen = []
      new MutationObserver(() => seen.push(document.querySelector("main").innerText)).observe(
        document.querySelector("main"), { childList: true, subtree: true, characterData: true })`)
    return async () => ((await page.evaluate("seen")) as readonly string[]).filter((text) => pattern.test(text))
  }

  test("an empty svc offers three ways to begin, and imports the servers of clients [admin:first-run]", async () => {
    await page.getByRole("heading", { name: "Welcome to svc" }).waitFor()
    expect(await seriousFindings(page)).toEqual([])
    const flashes = await watchTexts(/No server is named/)
    await button("Add the demo server").click()
    await isSaid(/demo was added: connected/)
    await page.getByText("Clients see 3 tools", { exact: false }).waitFor()
    expect(await flashes()).toEqual([])
    await button("Remove demo").click()
    await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).click()
    await page.getByRole("heading", { name: "Welcome to svc" }).waitFor()
    await link("Import from my clients").click()
    const servers = page.getByRole("table", { name: "Servers of Cursor" })
    await servers.getByRole("row", { name: /echo/ }).waitFor()
    expect(await page.locator("main").textContent()).not.toContain(KEY)
    expect(await seriousFindings(page)).toEqual([])
    // The servers of projects are imported only on request.
    const projects = page.getByLabel(/^Also import the servers of projects/)
    await row(/^local/)
      .getByText(/not imported: it belongs to the project/)
      .waitFor()
    await projects.check()
    await button("Import 3 servers").waitFor()
    await row(/^Import local/)
      .getByText("svc offers it in every project")
      .waitFor()
    await projects.uncheck()
    // Each server has a box.
    await page.getByLabel("Import every").uncheck()
    await button("Import 1 server").waitFor()
    const welcomes = await watchTexts(/Welcome to svc/)
    await button("Import 1 server").click()
    await isSaid(/^1 server imported: echo\. Next, connect a client/)
    await page.getByRole("heading", { name: "Clients", level: 1 }).waitFor()
    await page.getByText("No client is connected to svc,", { exact: false }).waitFor()
    expect(await seriousFindings(page)).toEqual([])
    expect(Object.keys(written())).toEqual(["echo"])
    await admin.show("servers/import")
    await row(/^echo/)
      .getByText(/already in svc/)
      .waitFor()
    await button("Import 1 server").click()
    await isSaid(/^1 server imported: every/)
    await admin.show("servers")
    await row(/^echo/).waitFor()
    expect(await welcomes()).toEqual([])
    await row(/^echo/).getByText("connected").waitFor()
    await row(/^every/)
      .getByText("connected")
      .waitFor()
    expect(written().echo.env).toEqual({ GITHUB_TOKEN: reference("GITHUB_TOKEN") })
  })

  test("a client is connected after its change was shown, and disconnected by undo [admin:clients]", async () => {
    const before = readFileSync(cursor, "utf8")
    await link("Clients").click()
    await row(/^Cursor/)
      .getByText("not connected")
      .waitFor()
    await button("Connect Cursor").first().click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText("proxy", { exact: false }).first().waitFor()
    expect(await seriousFindings(page)).toEqual([])
    expect(readFileSync(cursor, "utf8")).toBe(before)
    // The dialog explains the ways to connect, and offers presets.
    const how = dialog.getByLabel("How")
    await dialog.getByText(/which starts svc if necessary/).waitFor()
    await how.selectOption("address")
    await dialog.locator(".added", { hasText: `${svc.url}/mcp` }).waitFor()
    await dialog.getByText(/the client starts nothing/).waitFor()
    await how.selectOption("start")
    await dialog.getByRole("link", { name: "Create a preset" }).waitFor()
    await dialog.locator(".added", { hasText: "proxy" }).waitFor()
    await dialog.getByRole("button", { name: "Connect Cursor" }).click()
    await isSaid(/Cursor is connected/)
    await page.getByText("No client is connected to svc,", { exact: false }).waitFor({ state: "detached" })
    await row(/^Cursor/)
      .getByText("connected", { exact: true })
      .waitFor()
    expect(Object.keys(JSON.parse(readFileSync(cursor, "utf8")).mcpServers)).toEqual(["svc"])
    await button("Undo the last change to Cursor").click()
    await page.getByRole("dialog").getByRole("button", { name: "Undo" }).click()
    await row(/^Cursor/)
      .getByText("not connected")
      .waitFor()
    expect(readFileSync(cursor, "utf8")).toBe(before)
    // A file that was edited since, in the same line: the page says where its earlier version is.
    await button("Connect Cursor").first().click()
    await dialog.getByRole("button", { name: "Connect Cursor" }).click()
    await row(/^Cursor/)
      .getByText("connected", { exact: true })
      .waitFor()
    writeFileSync(cursor, JSON.stringify({ theme: "dark", ...JSON.parse(readFileSync(cursor, "utf8")) }))
    await button("Undo the last change to Cursor").click()
    await dialog.getByRole("button", { name: "Undo" }).click()
    await isSaid(/were restored; the file was edited since, .* its earlier version is still in/)
    writeFileSync(cursor, before)
  })

  test("whatever is pasted becomes a server, and a key in it goes to .env [admin:paste]", async () => {
    await admin.show("servers/add")
    const field = page.getByLabel("Paste anything")
    await field.fill(`CRM_API_KEY=sk-live-0123456789abcdef0123 ${SVC} demo-server`)
    const name = page.getByRole("textbox", { name: "Name", exact: true })
    await eventually(async () => (await name.inputValue()) !== "")
    // The form shows all that was read, and adding to it loses nothing.
    expect(await page.getByLabel("Name 1 in env", { exact: true }).inputValue()).toBe("CRM_API_KEY")
    await button("Add to env").click()
    await page.getByLabel("Name 2 in env", { exact: true }).fill("CRM_MODE")
    await page.getByLabel("Value of CRM_MODE in env").fill("fast")
    await name.fill("crm")
    await button("Add").last().click()
    await isSaid(/crm was added: connected/)
    expect(written().crm).toEqual({ ...DEMO, env: { CRM_API_KEY: reference("CRM_API_KEY"), CRM_MODE: "fast" } })
    await admin.show("servers/add")
    await field.fill("npx -y some-server")
    await eventually(async () => (await name.inputValue()) !== "")
    await field.fill("{ this is not JSON")
    await eventually(async () => (await name.inputValue()) === "")
    await field.fill(JSON.stringify({ mcpServers: { one: DEMO, two: DEMO, bad: { args: [] } } }))
    await row(/bad/)
      .getByText(/neither a command nor a url/)
      .waitFor()
    expect(await page.getByLabel("Name", { exact: true }).isVisible()).toBe(false)
    await button("Add 2 servers").click()
    await row(/^one/).getByText("connected").waitFor()
    expect(Object.keys(written())).toEqual(expect.arrayContaining(["one", "two"]))
    await admin.show("servers/add")
    await field.fill('{"mcpServers": {')
    await page.getByRole("alert").getByText(/1:17/).waitFor()
    await field.fill("Please add the server for my calendar.")
    await page
      .getByRole("alert")
      .getByText(/this machine has no program named "Please"; paste the JSON/)
      .waitFor()
    expect(await name.inputValue()).toBe("")
  })

  test("a name that is taken is said beside the field, and the refusal names no command [admin:paste]", async () => {
    await admin.show("servers/add")
    await page.getByRole("textbox", { name: "Name", exact: true }).fill("crm")
    await page.getByText("A server with this name already exists.").waitFor()
    await page.getByLabel("Program (command)").fill(SVC)
    await button("Add").last().click()
    const refusal = page.locator("form").getByRole("alert")
    await refusal.waitFor()
    expect(await refusal.textContent()).toBe("there is already a server named crm")
    await link("change that server").click()
    await page.getByText(/mcpServers\.crm in/).waitFor()
  })

  test("a missing secret is a field, in the server and among the issues [admin:secrets]", async () => {
    svc.write({ mcpServers: { ...written(), sales: { ...DEMO, env: { TOKEN: reference("SALES_TOKEN") } } } })
    await admin.show("issues")
    await page.getByRole("textbox", { name: "SALES_TOKEN" }).waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await admin.show("servers/sales")
    await page.getByRole("textbox", { name: "SALES_TOKEN" }).fill("canary-5a1e5")
    await button("Set SALES_TOKEN").click()
    await isSaid(/SALES_TOKEN is stored/)
    // The field is gone, and the focus is not at the top of the page.
    await page.locator("main h1:focus").waitFor()
    await page.getByText("connected").first().waitFor()
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain("canary-5a1e5")
    await admin.show("secrets")
    await row(/SALES_TOKEN/)
      .getByRole("link", { name: "sales" })
      .waitFor()
    expect(await page.locator("main").textContent()).not.toContain("canary-5a1e5")
    expect(await seriousFindings(page)).toEqual([])
  })

  test("a secret is removed after a question that names the servers which use it [admin:secrets]", async () => {
    await admin.show("secrets")
    const dialog = page.getByRole("dialog", { name: "Remove SALES_TOKEN?" })
    for (const answer of ["Cancel", "Remove"]) {
      await button("Remove SALES_TOKEN").click()
      await dialog.getByText(/In use: sales refers to \$\{SALES_TOKEN\}\. svc stops it until/).waitFor()
      await dialog.getByRole("button", { name: answer, exact: true }).click()
      await dialog.waitFor({ state: "detached" })
      if (answer === "Cancel") expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain("canary-5a1e5")
    }
    await isSaid(/SALES_TOKEN was removed/)
    await row(/SALES_TOKEN/).waitFor({ state: "detached" })
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).not.toContain("canary-5a1e5")
    for (const view of ["secrets", "issues"]) {
      await admin.show(view)
      await page.getByRole("textbox", { name: "SALES_TOKEN" }).waitFor()
    }
  })

  test("a token is created, shown once with the entry for a client, and revoked [admin:tokens]", async () => {
    await admin.show("clients")
    await page.getByText(/svc does not require tokens now/).waitFor()
    await page.getByLabel("Name of the token").fill("laptop")
    await page.getByText(/can also add servers/).waitFor()
    expect(await page.getByLabel("Expires").inputValue()).toBe("90d")
    await button("Create the token").click()
    await page.getByText("svc stores only a hash of it", { exact: false }).waitFor()
    // The form is gone; the focus is on what took its place.
    expect(await page.evaluate("document.activeElement.textContent")).toContain("svc stores only a hash of it")
    const shown = await page.locator(".copy pre").allTextContents()
    const secret = shown.find((text) => text.startsWith("svc_")) ?? ""
    expect(shown.some((text) => text.includes(`Bearer ${secret}`) && text.includes(`${svc.url}/mcp`))).toBe(true)
    await row(/^laptop/)
      .getByText("everything, including this page")
      .waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await button("I have stored it").click()
    await page.getByLabel("Name of the token").fill("laptop")
    await page.getByText("A token with this name exists", { exact: false }).waitFor()
    await page.getByLabel("Name of the token").fill("grafana")
    await page.getByLabel("Gives access to").selectOption({ label: "Only the metrics, for monitoring" })
    await page.getByLabel("Name of the token").press("Enter")
    await row(/^grafana/)
      .getByText("only the metrics")
      .waitFor()
    await button("I have stored it").click()
    const everything = await page.evaluate(
      "document.documentElement.innerHTML + JSON.stringify({...localStorage, ...sessionStorage})",
    )
    expect(everything).not.toContain(secret)
    expect(svc.stderr()).not.toContain(secret)
    for (const name of ["laptop", "grafana"]) {
      await button(`Revoke ${name}`).click()
      await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click()
      await isSaid(`${name} was revoked`)
    }
    await row(/^laptop/).waitFor({ state: "detached" })
    expect(await seriousFindings(page)).toEqual([])
  })

  test("a server that does not start says so in amber, with its last lines and a way to its settings [admin:failure]", async () => {
    await admin.show("servers/add")
    await page.getByRole("textbox", { name: "Name", exact: true }).fill("needy")
    await page.getByLabel("Paste anything").fill(JSON.stringify({ needy: NEEDY }))
    await eventually(async () => (await page.getByLabel("command").first().inputValue()) === "sh")
    await button("Add").last().click()
    const notice = page.locator(".notices .note", { hasText: "needy was added" })
    await notice.waitFor()
    expect(await notice.getAttribute("class")).not.toContain("good")
    await page.locator("pre", { hasText: "the database is missing" }).waitFor()
    await link("Open the settings").waitFor()
    // On a telephone, the button is below the reason, not beside it.
    await page.setViewportSize({ width: 390, height: 800 })
    expect((await page.locator("main .note > div").boundingBox())?.width).toBeGreaterThan(280)
    await page.setViewportSize({ width: 1280, height: 800 })
    await admin.show("issues")
    await button("Restart needy").waitFor()
    await button("Check again").waitFor()
  })

  test("a preset is made by ticking tools, while the tokens fall, and a client is connected to it [admin:presets-ticked]", async () => {
    await admin.show("presets")
    await link("Create a preset").click()
    await page.getByLabel("Name", { exact: true }).fill("my review set")
    await page.getByText("svc will save it as my-review-set").waitFor()
    await page.getByLabel("All tools of echo").check()
    const sum = page.locator(".sticky strong")
    const tokens = async () =>
      Number((/about ([\d,]+) tokens/.exec((await sum.textContent()) ?? "")?.[1] ?? "").replace(",", ""))
    const whole = await tokens()
    expect(whole).toBeGreaterThan(0)
    await page.locator("summary", { hasText: "echo" }).click()
    await page.getByRole("region", { name: "echo" }).locator(".tick input[type=checkbox]").first().uncheck()
    await eventually(async () => (await tokens()) < whole)
    expect(await seriousFindings(page)).toEqual([])
    // Enter in the search of the form is about the search.
    await page.getByLabel("Search tools").fill("echo")
    await page.getByLabel("Search tools").press("Enter")
    await page.getByLabel("Search tools").fill("")
    expect(await button("Save").getAttribute("aria-busy")).toBe("false")
    await button("Save").click()
    await isSaid(/my-review-set was saved/)
    const { servers, allow } = presets()["my-review-set"]
    expect(servers).toEqual(["echo"])
    expect(allow).toContain("echo/prompt:*")
    expect(allow.filter((one: string) => !one.includes(":"))).toHaveLength(2)
    await link("Edit my-review-set").click()
    await eventually(async () => (await tokens()) < whole)
    await page.getByLabel("Name of", { exact: false }).first().fill("better_name")
    await button("Save").click()
    await eventually(async () => Object.values(presets()["my-review-set"].names ?? {}).join() === "better_name")
    await link("Connect a client to my-review-set").click()
    await page.getByText("?preset=my-review-set", { exact: false }).first().waitFor()
    await link("Clients").click()
    await button("Connect Cursor").click()
    const dialog = page.getByRole("dialog")
    await dialog.getByLabel("Tools").selectOption("my-review-set")
    await dialog.locator(".added", { hasText: "my-review-set" }).waitFor()
    await dialog.getByRole("button", { name: "Connect Cursor" }).click()
    // A connected client keeps its preset until the person chooses otherwise.
    await button("Change the connection of Cursor").click()
    await dialog.getByText(/^Nothing would change/).waitFor()
    expect(await dialog.getByLabel("Tools").inputValue()).toBe("my-review-set")
    await dialog.getByRole("button", { name: "Cancel" }).click()
    await button("Undo the last change to Cursor").click()
    await dialog.getByRole("button", { name: "Undo" }).click()
    await row(/^Cursor/)
      .getByText("not connected")
      .waitFor()
  })

  test("what another tab saves meanwhile, and rules that have no box, survive an edit of a preset [admin:presets-edited]", async () => {
    const { headers } = await token(svc)
    const put = async (body: object) => {
      const response = await fetch(`${svc.url}/api/v1/presets/my-review-set`, {
        method: "PUT",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
      })
      expect(response.status).toBe(200)
    }
    const before = presets()["my-review-set"]
    await put({ deny: ["echo/resource:secret*", "gone/*"] })
    await admin.show("presets/my-review-set")
    await page.getByLabel("Description", { exact: true }).fill("mine")
    await page.locator("summary", { hasText: "echo" }).waitFor()
    const boxes = page.getByRole("region", { name: "echo" }).locator(".tick input[type=checkbox]")
    await boxes.first().check()
    await put({ prefix: "none", names: { ...before.names, "echo/late": "later" } })
    await page.locator("summary", { hasText: "More settings" }).click()
    await eventually(async () => (await page.getByLabel("Names of tools").inputValue()) === "none")
    expect(await boxes.first().isChecked()).toBe(true)
    await button("Save").click()
    await isSaid(/my-review-set was saved/)
    await link("Edit my-review-set").waitFor()
    const { description, prefix, names, deny, servers } = presets()["my-review-set"]
    expect({ description, prefix, names, deny, servers }).toEqual({
      description: "mine",
      prefix: "none",
      names: { ...before.names, "echo/late": "later" },
      deny: ["echo/resource:secret*", "gone/*"],
      servers: ["echo"],
    })
  })

  test("who opens another view while a save is on its way stays there, and is told [admin:presets-edited]", async () => {
    const held = Promise.withResolvers<void>()
    await page.route("**/presets/my-review-set", async (route) => {
      if (route.request().method() === "PUT") await held.promise
      await route.continue()
    })
    await admin.show("presets/my-review-set")
    await page.getByLabel("Description", { exact: true }).fill("ours")
    await button("Save").click()
    await page.locator(".notices .note").first().waitFor({ state: "detached" })
    await admin.show("sessions")
    held.resolve()
    await isSaid(/my-review-set was saved/)
    await page.unrouteAll({ behavior: "wait" })
    expect(presets()["my-review-set"].description).toBe("ours")
    expect(new URL(page.url()).hash).toBe("#/sessions")
  })

  test("prompts and resources are read [admin:offers]", async () => {
    await admin.show("servers/every/prompts")
    await button("Get simple-prompt").click()
    await page
      .getByLabel("Answer")
      .getByText(/simple prompt/)
      .waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await admin.show("servers/every/resources")
    await page
      .getByRole("button", { name: /^Read / })
      .first()
      .click()
    await page.getByLabel("Answer").locator("pre").waitFor()
  })

  test("a tool that asks a person can be tried [admin:asks]", async () => {
    await admin.show("tools/every_svc_trigger-elicitation-request")
    await button(/^Call /).click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText(/trigger-elicitation-request asks/).waitFor()
    expect(await seriousFindings(page)).toEqual([])
    // Every choice has its title, and the focus is where the answer begins: Enter on the closing button would cancel.
    const heroes = dialog.getByLabel("titledSingleSelectEnum").getByRole("option")
    expect(await heroes.allTextContents()).toContain("Wonder Woman")
    const pets = dialog.getByLabel("Legacy Titled Single Select Enum (legacyTitledEnum)").getByRole("option")
    expect(await pets.allTextContents()).toContain("Dogs")
    const name = dialog.getByLabel("String (name) (required)")
    expect(await page.evaluate("document.activeElement?.labels?.[0]?.textContent")).toBe("String (name) (required)")
    await name.fill("Ada")
    await name.press("Enter")
    await dialog.waitFor({ state: "detached" })
    await page.getByRole("region", { name: "Result" }).getByText(/Ada/).first().waitFor()
    await button(/^Call /).click()
    await dialog.getByRole("button", { name: "Decline" }).click()
    await page
      .getByRole("region", { name: "Result" })
      .getByText(/declined/i)
      .first()
      .waitFor()
  })

  test("a call is opened with its arguments and answer, filtered, and repeated [admin:calls]", async () => {
    await admin.show("activity")
    await page.getByRole("heading", { name: "Last calls" }).waitFor()
    const body = { tool: "every_svc_echo", arguments: { message: "hello from a client", apiKey: "sk-canary-77" } }
    const invoke = () =>
      fetch(`${svc.url}/mcp`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      })
    await invoke()
    await button("every / echo").click()
    const dialog = page.getByRole("dialog")
    await dialog.getByText("hello from a client").first().waitFor()
    expect(await dialog.textContent()).not.toContain("sk-canary-77")
    expect(await seriousFindings(page)).toEqual([])
    await dialog.getByRole("button", { name: "Close", exact: true }).last().click()
    await page.getByLabel("Search calls").fill("nothing like this")
    await page.getByText("No call matches.").waitFor()
    await page.getByLabel("Search calls").fill("")
    for (const which of ["Failed only", "Slower than 1 s"]) {
      await page.getByLabel("Which calls").selectOption(which)
      await page.getByText("No call matches.").waitFor()
    }
    await page.getByLabel("Which calls").selectOption("All calls")
    await dialog.waitFor({ state: "detached" })
    body.arguments = { message: "again please" } as typeof body.arguments
    await invoke()
    await button("every / echo").nth(1).waitFor()
    await button("every / echo").first().click()
    await dialog.getByRole("button", { name: "Call it again" }).click()
    await dialog
      .getByText(/Echo: again please/)
      .last()
      .waitFor()
    await dialog.getByRole("button", { name: "Close", exact: true }).last().click()
    const own = page.getByRole("cell", { name: /^svc admin page \d/ })
    await own.first().waitFor()
    await page.getByLabel("Client", { exact: true }).selectOption((await own.first().textContent()) ?? "")
    const calls = page.getByRole("group", { name: "The last calls" })
    await eventually(async () => (await calls.locator("tbody tr").count()) === (await own.count()))
  })

  test("the last change is undone after it was shown [admin:undo]", async () => {
    await admin.show("servers/one")
    await button("Remove one").click()
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
    await isSaid("one was removed")
    expect(written().one).toBeUndefined()
    await admin.show("history")
    await row(/Undo the last change/)
      .getByText("removed one", { exact: true })
      .waitFor()
    await button("Undo the last change").click()
    await page.getByRole("dialog").locator(".added").first().waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await page.getByRole("dialog").getByRole("button", { name: "Undo" }).click()
    // In the form of the other times of the page.
    await row(/\d+ \w+ \d{4}, \d\d:\d\d:\d\d/)
      .first()
      .waitFor()
    await eventually(async () => written().one !== undefined)
    expect(written().one).toEqual(DEMO)
  })

  test("two tabs that change different settings of a server both keep their change, and neither loses one to the other [admin:merge]", async () => {
    await using other = await visit(browser, svc)
    const open = async (tab: Visit) => {
      await tab.show("servers/two/settings")
      await tab.page.getByLabel("Working folder (cwd)").waitFor()
    }
    const addVariable = async ({ page: tab }: Visit, name: string) => {
      await tab.getByRole("button", { name: "Add to env" }).click()
      await tab.getByLabel("Name 1 in env", { exact: true }).fill(name)
      await tab.getByLabel(`Value of ${name} in env`).fill("1")
    }
    const save = async ({ page: tab }: Visit) => tab.getByRole("button", { name: "Save" }).click()
    const isSaved = ({ page: tab }: Visit) =>
      tab
        .locator(".notices")
        .getByText(/two was saved/)
        .waitFor()
    for (const tab of [admin, other]) await open(tab)
    await page.getByLabel("Working folder (cwd)").fill("/tmp")
    await addVariable(admin, "MINE")
    await addVariable(other, "THEIRS")
    await save(other)
    await isSaved(other)
    expect(await page.getByLabel("Working folder (cwd)").inputValue()).toBe("/tmp")
    await save(admin)
    await isSaved(admin)
    expect(written().two).toEqual({ ...DEMO, cwd: "/tmp", env: { THEIRS: "1", MINE: "1" } })

    // The same setting: the second tab is told, keeps what was typed, and writes nothing.
    await admin.show("servers")
    await row(/^two/).waitFor()
    for (const tab of [admin, other]) await open(tab)
    await other.page.reload()
    await other.page.getByLabel("Value of MINE in env").waitFor()
    await page.getByLabel("Working folder (cwd)").fill("/mine")
    await other.page.getByLabel("Working folder (cwd)").fill("/theirs")
    await save(other)
    await isSaved(other)
    await save(admin)
    await page.getByText(/was changed in the meantime, and your change touches the same settings/).waitFor()
    expect(await page.getByLabel("Working folder (cwd)").inputValue()).toBe("/mine")
    expect(written().two.cwd).toBe("/theirs")
    await button("Reload").click()
    await eventually(async () => (await page.getByLabel("Working folder (cwd)").inputValue()) === "/theirs")

    // While a save is on its way, the fields take nothing that the saved server would replace.
    const held = Promise.withResolvers<void>()
    await page.route("**/config/servers/two", async (route) => {
      if (route.request().method() === "PUT") await held.promise
      await route.continue()
    })
    const folder = page.getByLabel("Working folder (cwd)")
    await folder.fill("/held")
    await save(admin)
    await page.locator("form [inert]").waitFor({ state: "attached" })
    await page.keyboard.type("lost")
    expect(await folder.inputValue()).toBe("/held")
    held.resolve()
    await eventually(async () => written().two.cwd === "/held")
    await page.unrouteAll({ behavior: "wait" })
    await page.locator("form [inert]").waitFor({ state: "detached" })

    // The other tab removes the server: what was typed stays to be copied, and Save says that there is no such server.
    await page.getByLabel("Working folder (cwd)").fill("/last")
    await other.page.getByRole("button", { name: "Remove two" }).click()
    await other.page.getByRole("dialog").getByRole("button", { name: "Remove" }).click()
    await page.getByText(/removed elsewhere while its settings were open/).waitFor()
    expect(await page.getByLabel("Working folder (cwd)").inputValue()).toBe("/last")
    await save(admin)
    await page
      .locator("form")
      .getByRole("alert")
      .getByText(/no server is named two/i)
      .waitFor()
    expect(await seriousFindings(page)).toEqual([])
    await admin.show("servers")
    await row(/^every/).waitFor()
    await admin.show("servers/two/settings")
    await page.getByText("No server is named two.").waitFor()
    expect(await page.getByLabel("Working folder (cwd)").count()).toBe(0)
  })

  test("the demo has a page, connects no client, and leaves nothing behind [admin:demo]", async () => {
    const [folder, temporary] = [freshFolder(), freshFolder()]
    const client = join(folder, ".cursor", "mcp.json")
    mkdirSync(join(folder, ".cursor"))
    writeFileSync(client, "{}")
    const demo = await startSvc({ folder, flags: ["--demo"], env: { ...freshEnv(folder), TMPDIR: temporary } })
    const left = () => readdirSync(temporary).filter((name) => name.startsWith("svc-demo-"))
    {
      await using tab = await visit(browser, demo)
      await tab.page.getByText("This is the demo.", { exact: false }).waitFor()
      expect(await seriousFindings(tab.page)).toEqual([])
      await tab.page.getByRole("button", { name: "Disable demo" }).click()
      await tab.page.locator(".notices").getByText("demo: disabled").waitFor()
      expect(left()).toHaveLength(1)
      await tab.show("clients")
      await tab.page.getByRole("button", { name: "Connect Cursor" }).click()
      await tab.page.getByText(/the demo is gone when it stops/).waitFor()
      expect(tab.complaints).toEqual([])
    }
    demo.signal("SIGTERM")
    expect(await demo.exited).toBe(0)
    expect([left(), readFileSync(client, "utf8"), existsSync(join(folder, "mcp.json"))]).toEqual([[], "{}", false])
  })

  test("on a telephone and in the dark, nothing is wider than the screen [admin:narrow]", async () => {
    await using phone = await visit(browser, svc, { viewport: { width: 390, height: 800 }, colorScheme: "dark" })
    for (const view of ["clients", "servers/add", "presets/+", "issues", "secrets", "history", "servers/import"]) {
      await phone.show(view)
      await phone.page.getByRole("heading", { level: 1 }).waitFor()
      expect([view, await phone.page.evaluate("document.documentElement.scrollWidth")]).toEqual([view, 390])
      await phone.page.getByText("Loading …").first().waitFor({ state: "detached" })
      for (const width of [390, 768]) {
        await phone.page.setViewportSize({ width, height: 800 })
        const tables = phone.page.locator(".scroll")
        const over = await tables.evaluateAll((all) => all.map((one) => one.scrollWidth - one.clientWidth))
        expect([view, width, over]).toEqual([view, width, over.map(() => 0)])
      }
      await phone.page.setViewportSize({ width: 390, height: 800 })
      expect(await seriousFindings(phone.page)).toEqual([])
    }
  })
})
