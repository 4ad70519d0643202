/** The admin page of the built binary, in Chromium: every flow of a person who manages servers. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { startAuthority, startResource } from "../fixtures/authority.ts"
import { type Registry, startRegistry } from "../fixtures/registry.ts"
import { CHROMIUM, seriousFindings, startBrowser, type Visit, visit } from "./browser.ts"
import { eventually, fixture, freshFolder, type Instance, npmServer, runSvc, SVC, startSvc } from "./harness.ts"

const DEMO = { command: SVC, args: ["demo-server"] }
const ECHO = { command: "bun", args: [fixture("echo.ts"), "--tools", "3"] }
const SECRET = "sk-live-0123456789abcdef"
const CRASHING = { command: "sh", args: ["-c", "echo no database >&2; exit 3"], restartOnExit: true, maxRestarts: 1 }
const VIEWS = ["servers", "servers/crashing", "servers/echo/settings", "tools", "search?q=echo", "logs"] as const
const serversOf = (registry: Registry) => ({
  mcpServers: {
    every: { ...npmServer("server-everything"), tags: ["work"] },
    echo: { ...ECHO, tags: ["play"], env: { API_KEY: SECRET } },
    off: { ...DEMO, disabled: true },
    crashing: { ...CRASHING, restartDelay: 10 },
    "a-name-that-is-far-too-long-for-the-screen-of-a-telephone": { ...DEMO, disabled: true },
  },
  mcpTemplates: { project: { command: "echo", args: ["{{project.name}}"] } },
  registries: [{ name: "local", url: registry.url }],
})

describe.skipIf(CHROMIUM === undefined)("in the browser", () => {
  let registry: Registry
  let svc: Instance
  let browser: Browser
  let admin: Visit
  let page: Page

  beforeAll(async () => {
    registry = startRegistry([
      {
        name: "io.github.someone/weather",
        title: "Weather",
        description: "Forecasts for every city",
        version: "1.0.0",
        packages: [
          {
            registryType: "npm",
            identifier: "@someone/weather",
            version: "1.0.0",
            transport: { type: "stdio" },
            environmentVariables: [
              { name: "WEATHER_API_KEY", description: "Your key", isRequired: true, isSecret: true },
              { name: "WEATHER_UNITS", default: "metric", choices: ["imperial", "metric"] },
            ],
          },
        ],
      },
      {
        name: `io.github.someone/${"a-name-without-end-".repeat(8)}`,
        description: "Long",
        version: "1.0.0",
        status: "deprecated",
        statusMessage: "use io.github.someone/weather",
        packages: [
          { registryType: "npm", identifier: "@someone/long", version: "1.0.0", transport: { type: "stdio" } },
        ],
      },
    ])
    const started = startSvc({
      config: serversOf(registry),
      env: { PATH: `${folderWithNpx()}:${process.env.PATH}` },
    })
    ;[svc, browser] = await Promise.all([started, startBrowser()])
    admin = await visit(browser, svc)
    page = admin.page
  })
  afterAll(async () => {
    // In all tests, the page itself reported no errors and no forbidden requests.
    const complaints = admin.complaints
    await admin[Symbol.asyncDispose]()
    await browser.close()
    await svc[Symbol.asyncDispose]()
    await registry[Symbol.asyncDispose]()
    expect(complaints).toEqual([])
  })

  const written = (): Record<string, Record<string, unknown>> =>
    JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8")).mcpServers
  const button = (name: string | RegExp) => page.getByRole("button", { name, exact: true })
  const row = (name: string | RegExp) => page.getByRole("row", { name })
  const isSaid = (text: string | RegExp) => page.locator(".notices").getByText(text).waitFor()

  test("svc admin leads to the servers with their states, and the page loads nothing from elsewhere [admin:page]", async () => {
    await row(/^every/)
      .getByText("connected")
      .waitFor()
    await row(/^off/).getByText("disabled").waitFor()
    await row(/^crashing/)
      .getByText("crash-loop")
      .waitFor()
    await row(/^project/)
      .getByText("not in use")
      .waitFor()
    await page.getByRole("link", { name: "crashing", exact: true }).click()
    await page.getByText("exited with code 3: no database", { exact: true }).waitFor()
    await page.getByText(/Fix the cause, then restart/).waitFor()
  })

  test("without a login the page says how to log in [admin:login]", async () => {
    await using context = await browser.newContext()
    const stranger = await context.newPage()
    await stranger.goto(`${svc.url}/admin`)
    await stranger.getByText("svc admin", { exact: true }).waitFor()
    expect(await seriousFindings(stranger)).toEqual([])
  })

  test("a change in an editor shows in every tab [admin:live]", async () => {
    await using other = await visit(browser, svc)
    await admin.show("servers")
    const text = readFileSync(join(svc.folder, "mcp.json"), "utf8")
    const config = JSON.parse(text)
    svc.write({ ...config, mcpServers: { ...config.mcpServers, fresh: { ...DEMO, disabled: true } } })
    for (const tab of [page, other.page]) await tab.getByRole("link", { name: "fresh" }).waitFor()
    svc.write(text)
    for (const tab of [page, other.page]) await tab.getByRole("link", { name: "fresh" }).waitFor({ state: "detached" })
  })

  test("the page reports that its svc has ended, and goes on when svc is back, or asks for a login that svc no longer has [admin:live]", async () => {
    const first = await startSvc({ config: { mcpServers: {} } })
    const { folder } = first
    await using tab = await visit(browser, first)
    const gone = tab.page.getByText(/svc does not answer/)
    const stop = async (one: Instance) => {
      one.signal("SIGTERM")
      await one.exited
      await gone.waitFor()
    }
    const again = () => startSvc({ folder, port: Number(new URL(first.url).port) })
    await stop(first)
    const second = await again()
    await gone.waitFor({ state: "detached" })
    expect(await tab.page.getByRole("heading", { name: "Log in to svc" }).count()).toBe(0)
    await stop(second)
    rmSync(join(folder, "logins.json"))
    await using _third = await again()
    await tab.page.getByRole("heading", { name: "Log in to svc" }).waitFor()
  })

  test("a broken file shows on every view, and the servers stay as they are [admin:live]", async () => {
    await admin.show("tools")
    const text = readFileSync(join(svc.folder, "mcp.json"), "utf8")
    svc.write(`${text}}`)
    await page.getByRole("alert").getByRole("link", { name: "Configuration issues" }).waitFor()
    await admin.show("servers")
    await row(/^every/)
      .getByText("connected")
      .waitFor()
    svc.write(text)
    await page.getByRole("alert").waitFor({ state: "detached" })
  })

  test("servers are restarted, disabled and enabled [admin:servers]", async () => {
    await admin.show("servers")
    await button("Restart echo").click()
    await isSaid("echo was restarted")
    await button("Disable echo").click()
    await row(/^echo/).getByText("disabled").waitFor()
    expect(written().echo?.disabled).toBe(true)
    await button("Enable echo").click()
    await row(/^echo/).getByText("connected").waitFor()
    expect(written().echo?.disabled).not.toBe(true)
    // It has no process that could be restarted.
    expect(
      await row(/^project/)
        .getByRole("button")
        .allTextContents(),
    ).toEqual(["Disable"])
  })

  test("the user authorizes svc at a remote server through the server's own sign-in page [admin:servers]", async () => {
    await using authority = await startAuthority()
    using resource = startResource(authority)
    const config = { mcpServers: { web: { url: resource.url } } }
    await using remote = await startSvc({ config, env: { SVC_KEYCHAIN: "off" } })
    await using tab = await visit(browser, remote)
    await tab.page.getByRole("link", { name: "web", exact: true }).click()
    await tab.page.getByText("sign-in needed").first().waitFor()
    const opened = tab.page.context().waitForEvent("page")
    await tab.page.getByRole("button", { name: "Authorize web" }).click()
    // The authorization server of the test asks nothing: its page leads back to svc at once.
    await (await opened).getByText("web is authorized").waitFor()
    await tab.page.getByText("connected").first().waitFor()
  })

  test("a server is added, changed and removed by forms made from the schema [admin:edit]", async () => {
    await admin.show("servers/add")
    await page.getByLabel("Name", { exact: true }).fill("mine")
    await page.getByLabel("Program (command)").fill("bun")
    for (const [at, arg] of [fixture("echo.ts"), "--tools", "2"].entries()) {
      await button("Add to args").click()
      await page.getByLabel(`args ${at + 1}`, { exact: true }).fill(arg)
    }
    await button("Add").click()
    await isSaid(/mine was added: connected/)
    expect(written().mine).toEqual({ command: "bun", args: [fixture("echo.ts"), "--tools", "2"] })
    await page.getByRole("link", { name: "Settings" }).click()
    await page.getByText("More settings").click()
    await page.getByLabel("requestTimeout").fill("5000")
    await button("Save").click()
    await isSaid("mine was saved")
    expect(written().mine).toMatchObject({ requestTimeout: 5000 })
    await button("Remove mine").click()
    await button("Remove").click()
    await isSaid("mine was removed")
    expect(written().mine).toBeUndefined()
  })

  test("a hidden secret stays when other settings change, and two simultaneous edits do not overwrite each other [admin:edit]", async () => {
    await admin.show("servers/echo/settings")
    expect(await page.getByLabel("Value of API_KEY in env").inputValue()).toBe("•••")
    await button("Add to tags").click()
    await page.getByLabel("tags 2", { exact: true }).fill("fun")
    const config = JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8"))
    config.mcpServers.echo.requestTimeout = 9000
    config.mcpServers.echo.tags = ["play", "hard"]
    svc.write(config)
    await button("Save").click()
    await page.getByText(/was changed in the meantime/).waitFor()
    expect(written().echo?.tags).toEqual(["play", "hard"])
    await button("Reload").click()
    await page.getByText(/was changed in the meantime/).waitFor({ state: "detached" })
    await page.getByLabel("tags 2", { exact: true }).fill("fun")
    await button("Save").click()
    await isSaid("echo was saved")
    expect(written().echo).toMatchObject({ tags: ["play", "fun"], requestTimeout: 9000, env: { API_KEY: SECRET } })
  })

  test("a text that is not JSON is not sent, and nothing is sent in its place [admin:edit]", async () => {
    // The form of the test before may still be reading what it saved.
    await admin.show("servers")
    await row(/^echo/).waitFor()
    await admin.show("servers/echo/settings")
    await button("JSON").click()
    const settings = page.getByLabel("echo, as JSON")
    const valid = JSON.stringify({ ...JSON.parse(await settings.inputValue()), requestTimeout: 7777 })
    await settings.fill(valid)
    await settings.fill(valid.slice(0, -1))
    await page.getByText(/This is not JSON/).waitFor()
    await button("Save").click()
    expect(
      await settings.evaluate((field) => (field as unknown as { validationMessage: string }).validationMessage),
    ).toMatch(/This is not JSON/)
    await settings.fill(valid.replace("7777", "5555"))
    await button("Save").click()
    await eventually(async () => written().echo?.requestTimeout === 5555)
    const backups = readdirSync(join(svc.folder, "backups")).map((name) => join(svc.folder, "backups", name))
    expect(backups.filter((file) => readFileSync(file, "utf8").includes("7777"))).toEqual([])
  })

  test("tools are hidden in bulk, and the last ones only after a question [admin:zero-tools]", async () => {
    await admin.show("servers/echo/tools")
    await page.getByLabel("Select echo1").check()
    await button("Hide 1").click()
    await row(/^Select echo1/)
      .getByText("hidden")
      .waitFor()
    expect(written().echo?.disabledTools).toEqual(["echo1"])
    await page.getByLabel("Select all 3 tools").check()
    await button("Hide 3").click()
    await page
      .getByRole("dialog")
      .getByText(/echo would no longer offer any tool/)
      .waitFor()
    await page.keyboard.press("Escape")
    await page.getByRole("dialog").waitFor({ state: "detached" })
    expect(written().echo?.disabledTools).toEqual(["echo1"])
    await button("Hide 3").click()
    await button("Hide all tools").click()
    await isSaid("3 tools hidden from clients")
    expect(written().echo?.disabledTools).toHaveLength(3)
    await page.getByLabel("Select all 3 tools").check()
    await button("Show 3").click()
    await isSaid("3 tools shown to clients")
    expect(written().echo?.disabledTools ?? []).toEqual([])
  })

  test("a tool's description is replaced and restored, beside the server's own text [admin:tools]", async () => {
    await admin.show("tools")
    await page.getByLabel("Search tools").waitFor()
    await page.keyboard.press("/")
    await page.keyboard.type("echo2")
    await page.getByRole("link", { name: "echo2", exact: true }).click()
    await page.getByLabel("What clients see").fill("Says it again")
    await button("Save").click()
    await isSaid("Clients see the new text")
    expect(written().echo?.toolDescriptionOverrides).toEqual({ echo2: "Says it again" })
    await page.locator("p").getByText("Returns its argument").waitFor()
    await button("Restore the server's text").click()
    await isSaid("Clients see the server's own text again")
    await eventually(async () => (await page.getByLabel("What clients see").inputValue()) === "Returns its argument")
  })

  test("a description that is being typed stays when another tab changes it [admin:tools]", async () => {
    await using other = await visit(browser, svc)
    const fieldOf = (tab: Page) => tab.getByLabel("What clients see")
    for (const tab of [admin, other]) await tab.show("tools/echo_svc_echo1")
    await fieldOf(page).fill("Mine")
    await fieldOf(other.page).fill("Theirs ")
    await other.page.getByRole("button", { name: "Save" }).click()
    await page.getByText(/changed elsewhere in the meantime. Clients now see: Theirs/).waitFor()
    expect(await fieldOf(page).inputValue()).toBe("Mine")
    await button("Use that text").click()
    await eventually(async () => (await fieldOf(page).inputValue()) === "Theirs")
    await button("Restore the server's text").click()
    await isSaid("Clients see the server's own text again")
    await eventually(async () => (await fieldOf(other.page).inputValue()) === "Returns its argument")
    expect(await other.page.getByText(/changed elsewhere/).count()).toBe(0)
  })

  test("a thousand tools are drawn in parts, and all of them are searched [admin:tools]", async () => {
    const many = { command: "bun", args: [fixture("echo.ts"), "--tools", "1000"] }
    await using large = await startSvc({ config: { mcpServers: { many } } })
    await using tab = await visit(browser, large)
    await tab.page.getByRole("link", { name: "1,000 tools of many" }).click()
    await tab.page.getByText("Select all 1,000 tools").waitFor()
    expect(await tab.page.locator("tbody tr").count()).toBe(100)
    await tab.page.getByRole("button", { name: "Show 400 more of 1000" }).click()
    await eventually(async () => (await tab.page.locator("tbody tr").count()) === 500)
    await tab.page.getByLabel("Search tools").fill("echo999")
    await tab.page.getByText("Select all 1 tool").waitFor()
  })

  test("the list of tools shows the tools with every word of the search, of all servers or of one [admin:find]", async () => {
    await admin.show("tools")
    await page.getByLabel("Search tools").fill("ARGUMENT  echo2")
    await page.getByText("Select all 1 tool").waitFor()
    await row(/echo \/ echo2/).waitFor()
    await page.getByLabel("Search tools").fill("echo")
    await row(/every \/ echo/).waitFor()
    await page.getByLabel("Server", { exact: true }).selectOption("echo")
    await page.getByText("Select all 3 tools").waitFor()
    expect(await row(/every \//).count()).toBe(0)
    await page.getByLabel("Search tools").fill("argument no-such-word")
    await page.getByText("No tool matches.").waitFor()
    expect(await page.getByText(/Select all/).count()).toBe(0)
    expect(await button("Hide").count()).toBe(0)
    await admin.show("servers")
    await page.getByLabel("Search servers").fill("play echo")
    await eventually(async () => (await page.locator("tbody tr").count()) === 1)
    await row(/^echo/).waitFor()
    await page.getByLabel("Search servers").fill("")
  })

  test("a tool is tried by a form made from its schema, and its result is shown by its kind [admin:try]", async () => {
    const result = page.getByRole("region", { name: "Result" })
    await admin.show("tools/every_svc_echo")
    await page.getByLabel("message (required)").fill("<img src=x onerror=alert(1)> hello")
    await button("Call echo").click()
    await result.getByText("<img src=x onerror=alert(1)> hello").waitFor()
    await admin.show("tools/every_svc_get-sum")
    await page.getByLabel("a (required)").fill("2")
    await page.getByLabel("b (required)").fill("40")
    await button("Call get-sum").click()
    await result.getByText(/42/).waitFor()
    await admin.show("tools/every_svc_get-tiny-image")
    await button("Call get-tiny-image").click()
    await result.getByRole("img").waitFor()
    expect(
      await result.getByRole("img").evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth),
    ).toBeGreaterThan(0)
    await admin.show("tools/every_svc_get-structured-content")
    await page.getByLabel("location (required)").selectOption("Chicago")
    await button("Call get-structured-content").click()
    await result.getByText("humidity").waitFor()
    await page.getByText("Schemas and annotations").click()
    await page.getByText(/"inputSchema"/).waitFor()
  })

  test("a list of numbers takes fractions and negative numbers [admin:try]", async () => {
    const config = { mcpServers: { sums: { command: "bun", args: [fixture("echo.ts"), "--numbers"] } } }
    await using sums = await startSvc({ config })
    await using tab = await visit(browser, sums)
    await tab.show("tools/sums_svc_echo")
    for (const [at, text] of ["-1.5", "0.25"].entries()) {
      await tab.page.getByRole("button", { name: "Add to m" }).click()
      const field = tab.page.getByLabel(`m ${at + 1}`, { exact: true })
      await field.press("Control+A")
      await field.pressSequentially(text)
    }
    await tab.page.getByRole("button", { name: "Call echo" }).click()
    await tab.page
      .getByRole("region", { name: "Result" })
      .getByText(/-1\.5,\s*0\.25/)
      .waitFor()
  })

  test("the log follows, and filters by server, level and text [admin:logs]", async () => {
    await admin.show("logs")
    await page.getByLabel("Server", { exact: true }).selectOption("echo")
    const log = page.getByRole("log")
    await log
      .getByText(/connected: 3 tools/)
      .first()
      .waitFor()
    await eventually(async () => (await log.getByText(/no database/).count()) === 0)
    const before = await log.getByText(/connected: 3 tools/).count()
    await runSvc(["mcp", "restart", "echo", "--config-dir", svc.folder])
    await eventually(async () => (await log.getByText(/connected: 3 tools/).count()) > before)
    await page.getByLabel("Search the log").fill("nothing says this")
    await page.getByText("No line matches.").waitFor()
  })

  test("a preset may also select servers by their tags [admin:presets]", async () => {
    await admin.show("presets")
    await page.getByRole("link", { name: "Create a preset" }).click()
    await page.getByLabel("Name", { exact: true }).fill("work")
    await page.getByText("More settings").click()
    await page.getByLabel("Tags").fill("work or")
    await button("Save").click()
    await page.getByRole("alert").waitFor()
    await page.getByLabel("Tags").fill("not play")
    await button("Save").click()
    await row(/^work/).getByRole("link", { name: "every" }).waitFor()
    await button("Delete work").click()
    await button("Delete").click()
    await page.getByText("No presets yet").waitFor()
  })

  test("a server from a registry is installed after the user has seen what runs [admin:install]", async () => {
    await admin.show("registry")
    await page.getByLabel("Search the registries").fill("weather")
    await page.getByRole("link", { name: "Weather" }).click()
    await page.getByText("npx -y @someone/weather@1.0.0").waitFor()
    // Nothing is asked, and nothing installed, while a value is missing; the field says so.
    const field = page.getByLabel("WEATHER_API_KEY (required)")
    await button("Install weather").click()
    await page.getByText("Required.").waitFor()
    await page.locator("[aria-required=true][aria-invalid=true]:focus").waitFor()
    expect(await page.getByRole("region", { name: "What would run" }).count()).toBe(0)
    expect(await page.getByLabel("WEATHER_UNITS").inputValue()).toBe("metric")
    await field.fill(SECRET)
    const plan = page.getByRole("region", { name: "What would run" })
    await plan.getByText("npx -y @someone/weather@1.0.0").waitFor()
    await plan.getByText("Secrets go into .env, as: WEATHER_API_KEY.").waitFor()
    expect(Object.keys(written())).not.toContain("weather")
    // A plan for other values is gone at once, and the button waits for the new one.
    await page.getByLabel("WEATHER_UNITS").selectOption("imperial")
    expect(await plan.count()).toBe(0)
    await button("Install weather").click({ force: true })
    await plan.waitFor()
    expect(Object.keys(written())).not.toContain("weather")
    await button("Install weather").click()
    await isSaid(/weather is installed: connected/)
    expect(JSON.stringify(written().weather)).not.toContain(SECRET)
    expect(written().weather).toMatchObject({ env: { WEATHER_UNITS: "imperial" } })
    expect(readFileSync(join(svc.folder, ".env"), "utf8")).toContain(SECRET)
  })

  test("a server from a registry is updated after the person has seen what would run [admin:update]", async () => {
    const config = JSON.parse(readFileSync(join(svc.folder, "mcp.json"), "utf8"))
    const older = {
      command: "npx",
      args: ["-y", "@someone/weather@0.9.0"],
      env: { WEATHER_API_KEY: SECRET, WEATHER_UNITS: "metric" },
      installedFrom: {
        registry: "local",
        name: "io.github.someone/weather",
        version: "0.9.0",
        type: "npm",
        package: "@someone/weather",
      },
    }
    svc.write({ ...config, mcpServers: { ...config.mcpServers, older } })
    await admin.show("servers/older")
    const panel = page.getByRole("region", { name: "Version" })
    await panel.getByText("0.9.0", { exact: true }).waitFor()
    await panel.getByRole("button", { name: "Look for an update" }).click()
    await panel.getByText("npx -y @someone/weather@1.0.0").waitFor()
    expect(written().older).toEqual(older)
    expect(await seriousFindings(page)).toEqual([])
    await panel.getByRole("button", { name: "Update to 1.0.0" }).click()
    await isSaid("older is now 1.0.0")
    expect(written().older).toMatchObject({ args: ["-y", "@someone/weather@1.0.0"] })
    await panel.getByText("1.0.0", { exact: true }).waitFor()
    await panel.getByRole("button", { name: "Look for an update" }).click()
    await panel.getByText("This is the latest version.").waitFor()
  })

  test("a deprecated server is shown with the registry's reason, and its long name once [registry:status]", async () => {
    await admin.show("registry")
    await page.getByLabel("Search the registries").fill("a-name-without-end")
    const card = page.getByRole("article").filter({ hasText: "Long" })
    await card.getByText("use io.github.someone/weather").waitFor()
    expect(await card.getByRole("heading").textContent()).toStartWith("a-name-without-end-")
    expect(await card.evaluate((one) => one.scrollWidth <= one.clientWidth)).toBe(true)
    await card.getByRole("link").click()
    await page
      .getByText(/ is deprecated in its registry: use io.github.someone\/weather/)
      .first()
      .waitFor()
  })

  test("a search shows scores and where the words were found [admin:search]", async () => {
    await admin.show("search")
    await page.getByLabel("What should the tool do?").waitFor()
    await page.keyboard.press("/")
    await page.keyboard.type("returns its argument")
    await row(/echo/)
      .first()
      .getByText(/description/)
      .waitFor()
  })

  test("the keyboard reaches the content, and the colors follow the choice [admin:access]", async () => {
    await admin.show("servers")
    await page.reload()
    await page.getByRole("table").waitFor()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    expect(await page.evaluate("document.activeElement?.id")).toBe("main")
    await admin.show("servers/echo")
    const removing = button("Remove echo")
    for (const key of ["Enter", "Escape"]) {
      await removing.focus()
      await page.keyboard.press("Enter")
      if (key === "Enter") await button("Cancel").focus()
      await page.keyboard.press(key)
      await page.getByRole("dialog").waitFor({ state: "detached" })
      expect([key, await page.evaluate("document.activeElement?.ariaLabel")]).toEqual([key, "Remove echo"])
    }
    await button("Restart echo").focus()
    await page.keyboard.press("Enter")
    await isSaid("echo was restarted")
    expect(await page.evaluate("document.activeElement?.ariaLabel")).toBe("Restart echo")
    await page.getByLabel("dark").check({ force: true })
    const colors = "getComputedStyle(document.documentElement).colorScheme"
    await eventually(async () => (await page.evaluate(colors)) === "dark")
    await page.getByLabel("system").check({ force: true })
  })

  // axe takes a third of a second per view.
  test.each([
    [1280, "light", [...VIEWS, "servers/add", "tools/every_svc_echo", "presets", "templates", "registry"]],
    [390, "dark", VIEWS],
  ] as const)(
    "no view of %i px in %s has a serious finding of axe, or is wider than the screen [admin:access]",
    async (width, scheme, views) => {
      await page.setViewportSize({ width, height: 844 })
      await page.emulateMedia({ colorScheme: scheme })
      for (const view of views) {
        await admin.show(view)
        await page.locator("main h1").waitFor()
        await page.getByText("Loading …").first().waitFor({ state: "detached" })
        expect([view, await seriousFindings(page)]).toEqual([view, []])
        expect([view, await page.evaluate("document.documentElement.scrollWidth <= innerWidth")]).toEqual([view, true])
      }
      await page.setViewportSize({ width: 1280, height: 800 })
    },
    60_000,
  )
})

test("the page and its files are sent with their policy, compressed, and without a login [admin:page]", async () => {
  await using svc = await startSvc({ config: { mcpServers: {} }, flags: ["--auth"] })
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

// ---

/** A folder with an `npx` that runs a small server of ours. */
function folderWithNpx(): string {
  const folder = join(freshFolder(), "bin")
  mkdirSync(folder)
  writeFileSync(join(folder, "npx"), `#!/bin/sh\nexec bun ${fixture("echo.ts")} --tools 2\n`)
  chmodSync(join(folder, "npx"), 0o755)
  return folder
}
