/** Chromium for the tests of the admin page. Without it they are skipped. */
import axe, { type AxeResults } from "axe-core"
import { type Browser, chromium, type Page } from "playwright-core"
import { type Instance, runSvc } from "./harness.ts"

/** The path of Chromium; undefined if it is not installed. */
export const CHROMIUM = Bun.which("chromium") ?? Bun.which("chromium-browser") ?? undefined

if (CHROMIUM === undefined)
  process.stderr.write(
    "the tests of the admin page are skipped: Chromium is not installed (apt-get install chromium)\n",
  )

/** Starts Chromium. Without its sandbox, which a container does not allow. */
export const startBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? "chromium", args: ["--no-sandbox"] })

export type Visit = AsyncDisposable & {
  readonly page: Page
  /** What the page reported: errors, refused loads, requests to other origins. */
  readonly complaints: readonly string[]
  /** Goes to a view. */
  show(route: string): Promise<void>
}

/** Opens the admin page as `svc admin` does, in a context of its own. */
export async function visit(browser: Browser, svc: Instance, options: Visiting = {}): Promise<Visit> {
  const { stdout } = await runSvc(["admin", "--print", "--config-dir", svc.folder])
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(PATIENCE_MS)
  const complaints = watch(page, svc.url)
  await page.goto(stdout.trim())
  await page.locator("h1").first().waitFor()
  return {
    page,
    complaints,
    show: async (route) => {
      await page.goto(`${svc.url}/admin/#/${route}`)
    },
    [Symbol.asyncDispose]: () => context.close(),
  }
}

/** Returns the findings of axe-core that are serious or worse, with the elements. */
export async function seriousFindings(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source)
  const found = (await page.evaluate("axe.run()")) as AxeResults
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

// ---

/** Less than the time limit of a test, so that the error names what is missing. */
const PATIENCE_MS = 10_000

type Visiting = { readonly viewport?: { width: number; height: number }; readonly colorScheme?: "light" | "dark" }

/** Collects what a page should not do. */
function watch(page: Page, origin: string): readonly string[] {
  const complaints: string[] = []
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`))
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) complaints.push(message.text())
  })
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on("request", (request) => {
    if (!/^(?:data|blob):/.test(request.url()) && !request.url().startsWith(`${origin}/`))
      complaints.push(`loads ${request.url()}`)
  })
  return complaints
}
