/** Records pictures of the admin page, with servers from npm in several states. */
import { CHROMIUM, startBrowser, visit } from "../e2e/browser.ts"
import { npmServer, runSvc, SVC, startSvc } from "../e2e/harness.ts"

/** A picture: PNG. */
export type RecordedPage = { readonly name: string; readonly image: Uint8Array }

const failing = (message: string) => ({ command: "sh", args: ["-c", `echo '${message}' >&2; exit 1`] })
const CONFIG = {
  mcpServers: {
    browser: { command: SVC, args: ["demo-server"], tags: ["web", "work"] },
    files: {
      ...npmServer("server-filesystem", "/usr/share"),
      tags: ["local", "work"],
      disabledTools: ["move_file", "write_file"],
      toolDescriptionOverrides: { read_text_file: "Reads one text file of the project." },
    },
    everything: { ...npmServer("server-everything"), tags: ["test"] },
    memory: { ...npmServer("server-memory"), tags: ["notes"] },
    database: {
      ...failing("Error: cannot open /srv/orders.db: permission denied"),
      restartOnExit: true,
      maxRestarts: 1,
      restartDelay: 10,
      tags: ["work"],
    },
    tracker: {
      ...failing("Error: TRACKER_TOKEN is not set"),
      restartOnExit: true,
      restartDelay: 45_000,
      tags: ["work"],
    },
    wiki: { url: "http://127.0.0.1:1/mcp", tags: ["web"] },
    mail: { command: "mail-mcp", disabled: true },
  },
  mcpTemplates: { project: { command: SVC, args: ["demo-server"], tags: ["local"], cwd: "{{project.path}}" } },
}

const WIDE = { width: 1280, height: 800 }
const MIDDLE = { width: 768, height: 900 }
const NARROW = { width: 390, height: 844 }

/** The pictures, with what a person has done before. */
const PAGES = [
  { name: "admin-servers", route: "servers", viewport: WIDE, colorScheme: "light" },
  { name: "admin-servers-narrow", route: "servers", viewport: NARROW, colorScheme: "dark" },
  { name: "admin-tools", route: "servers/files/tools", viewport: WIDE, colorScheme: "dark" },
  {
    name: "admin-try",
    route: "tools/everything_svc_get-structured-content",
    viewport: WIDE,
    colorScheme: "light",
    call: "get-structured-content",
  },
  { name: "admin-preset", route: "presets/+", viewport: MIDDLE, colorScheme: "light", preset: ["memory", "browser"] },
  { name: "admin-search", route: "search?q=read%20a%20text%20file", viewport: NARROW, colorScheme: "light" },
] as const

/** Records all pictures; none without Chromium. */
export async function recordPages(): Promise<readonly RecordedPage[]> {
  if (CHROMIUM === undefined) return []
  await using svc = await startSvc({ config: CONFIG })
  const browser = await startBrowser()
  try {
    const pages: RecordedPage[] = []
    await using first = await visit(browser, svc)
    await first.page
      .getByRole("row", { name: /^database/ })
      .getByText("crash-loop")
      .waitFor()
    // Calls, so that the numbers are those of a svc in use.
    for (const call of ["browser/echo", "files/list_allowed_directories", "memory/read_graph", "files/read_file"])
      await runSvc(["run", call, "--config-dir", svc.folder])
    for (const { name, route, viewport, colorScheme, ...rest } of PAGES) {
      await using shown = await visit(browser, svc, { viewport, colorScheme })
      await shown.show(route)
      await shown.page.locator("main h1").waitFor()
      await shown.page.getByText("Loading …").waitFor({ state: "detached" })
      if ("call" in rest) {
        await shown.page.getByLabel("location (required)").selectOption("Chicago")
        await shown.page.getByRole("button", { name: `Call ${rest.call}` }).click()
        await shown.page.getByRole("region", { name: "Result" }).waitFor()
      }
      if ("preset" in rest) {
        await shown.page.getByLabel("Name", { exact: true }).fill("notes and pages")
        for (const server of rest.preset) await shown.page.getByLabel(`All tools of ${server}`).check()
        await shown.page.locator("summary", { hasText: "memory" }).click()
      }
      // What is read after the first drawing.
      await shown.page.waitForLoadState("networkidle", { timeout: 1500 }).catch(() => undefined)
      pages.push({ name, image: await shown.page.screenshot() })
    }
    return pages
  } finally {
    await browser.close()
  }
}
