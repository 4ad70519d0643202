/**
 * Answers `GET /`: with a page for a person who opens the address of svc in a browser, with JSON for programs. Shows only what
 * needs no token: the address of MCP, how to connect a client, and the addresses of health and REST.
 */
import { sha256 } from "../lib/digest.ts"
import { version } from "../lib/version.ts"
import { escapeHtml, jsonResponse } from "./respond.ts"

export type FrontPageOptions = {
  /** The public address of svc; if undefined, the page shows the address of the request. */
  readonly externalUrl: string | undefined
  /** Whether clients need a token. */
  readonly auth: boolean
  /** Whether REST and the admin page are served. */
  readonly rest: boolean
}

/** Answers `GET /`: HTML if the request prefers it, as browsers do, else JSON. */
export function serveFrontPage(request: Request, { externalUrl, ...options }: FrontPageOptions): Response {
  const origin = URL.canParse(request.url) ? new URL(request.url).origin : "http://localhost"
  const facts = { ...options, base: (externalUrl ?? origin).replace(/\/$/, "") }
  if (!/\btext\/html\b/.test(request.headers.get("accept") ?? "")) return jsonResponse(summaryOf(facts))
  return new Response(pageOf(facts), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `default-src 'none'; style-src 'sha256-${sha256(STYLE, "base64url")}='; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      vary: "accept",
    },
  })
}

// ---

type FrontPage = Omit<FrontPageOptions, "externalUrl"> & { readonly base: string }

const summaryOf = ({ base, rest }: FrontPage) => ({
  name: "svc",
  version,
  mcp: `${base}/mcp`,
  health: `${base}/health`,
  ...(rest && { admin: `${base}/admin`, api: `${base}/api/v1`, openapi: `${base}/api/v1/openapi.json` }),
})

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 44rem; margin: 3rem auto; padding: 0 1rem }
h1 { margin-bottom: 0 } h2 { margin: 2rem 0 .5rem; font-size: 1rem }
pre { padding: .75rem 1rem; border: 1px solid; border-radius: .5rem; overflow-x: auto }
code, pre { font: .875rem/1.5 ui-monospace, monospace }
`

function pageOf({ base, auth, rest }: FrontPage): string {
  const mcp = escapeHtml(`${base}/mcp`)
  const json = (entry: object) => escapeHtml(JSON.stringify({ mcpServers: { svc: entry } }, null, 2))
  const headers = auth ? { headers: { Authorization: "Bearer TOKEN" } } : {}
  const option = auth ? ' --header "Authorization: Bearer TOKEN"' : ""
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc</title>
<style>${STYLE}</style>
<main>
<h1>svc</h1>
<p>This is svc ${escapeHtml(version)}, an MCP server that offers the tools of many MCP servers as one. AI clients connect to <code>${mcp}</code>.</p>
${auth ? "<p>Clients need a token: replace TOKEN below with one that <code>svc auth token create</code> prints.</p>\n" : ""}<h2>Connect a client on this machine</h2>
<pre>svc connect --list
svc connect cursor</pre>
<h2>Claude Code</h2>
<pre>claude mcp add -t http svc ${mcp}${escapeHtml(option)}</pre>
<h2>Cursor (<code>~/.cursor/mcp.json</code>) and clients with the same format</h2>
<pre>${json({ url: `${base}/mcp`, ...headers })}</pre>
<h2>VS Code</h2>
<pre>${escapeHtml(`code --add-mcp '${JSON.stringify({ name: "svc", type: "http", url: `${base}/mcp`, ...headers })}'`)}</pre>
<h2>More</h2>
<ul>
<li><a href="/health">Health</a></li>
${rest ? '<li><a href="/admin">Admin page</a>: <code>svc admin</code> opens it logged in</li>\n<li><a href="/api/v1/openapi.json">REST API</a>: <code>svc admin --token</code> prints a token for programs</li>\n' : ""}</ul>
</main>
</html>
`
}
