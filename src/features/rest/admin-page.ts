/**
 * Serves the admin page: static files of admin/, which the build embeds in the program. Imported at the first request for the
 * page, not at the start.
 *
 *  1. The files contain no data of this svc, so they need no login; the data comes from REST, which needs one.
 *  2. The page runs only its own scripts, loads nothing from other sites, and no other page can frame it.
 *  3. Links between the files are relative, so that the page works behind a proxy that adds a path.
 */
import bundle from "../../admin/index.html"
import { HTTP_STATUS, RequestError, UnavailableError } from "../../lib/errors.ts"
import type { Inbound } from "../../serve/inbound.ts"
import { errorResponse } from "../../serve/respond.ts"

/** A file of the page, as Bun embeds it: `path` is its place in the program, and ends with its name. */
export type PageFile = { readonly path: string; readonly loader: string }

/** Answers a request for the page or one of its files. It never rejects. */
export async function serveAdminPage(inbound: Inbound, files = embeddedFiles(bundle)): Promise<Response> {
  try {
    return await respond(inbound, files)
  } catch (error) {
    return errorResponse(error, { shape: "json" })
  }
}

// ---

async function respond({ request, path, slash }: Inbound, files: readonly PageFile[]): Promise<Response> {
  if (request.method !== "GET" && request.method !== "HEAD")
    throw new RequestError("wrong_method", "Method not allowed")
  // The page links to its files from below this address.
  if (path === "/admin" && slash === "")
    return new Response(null, { status: HTTP_STATUS.seeOther, headers: { location: "admin/" } })
  if (files.length === 0)
    throw new UnavailableError("The admin page is only in the built program; run `bun run build`, then dist/svc")
  const name = path.slice("/admin/".length)
  const file = files.find((one) => (name === "" ? one.loader === "html" : nameOf(one) === name))
  if (file === undefined || (name !== "" && file.loader === "html"))
    throw new RequestError("not_found", `There is no ${path.slice(0, 200)}; the admin page is at /admin`)
  const isGzipped = /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")
  const text = await textOf(file, files)
  return new Response(isGzipped ? Bun.gzipSync(text) : text, {
    headers: {
      ...PAGE_HEADERS,
      "content-type": TYPES[file.loader] ?? "application/octet-stream",
      // The names of scripts and styles change with their content.
      "cache-control": file.loader === "html" ? "no-cache" : "public, max-age=31536000, immutable",
      vary: "accept-encoding",
      ...(isGzipped ? { "content-encoding": "gzip" } : {}),
    },
  })
}

/** Returns the text of a file. Makes links relative: Bun links the files from the root of the site, but the page is below it. */
async function textOf(file: PageFile, files: readonly PageFile[]): Promise<string> {
  const text = await Bun.file(file.path).text()
  if (file.loader !== "html") return text
  return files.reduce((page, one) => page.replaceAll(`"/${nameOf(one)}"`, `"${nameOf(one)}"`), text)
}

const nameOf = ({ path }: PageFile): string => path.replace(/^.*[/\\]/, "")

/** Returns the files of the page; none if the program was not built. */
const embeddedFiles = (page: Bun.HTMLBundle): readonly PageFile[] =>
  [...(page.files ?? [])].map(({ path, loader }) => ({ path, loader }))

const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
}

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
}
