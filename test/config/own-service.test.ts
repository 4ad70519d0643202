import { expect, test } from "bun:test"
import { parseDocument } from "../../src/config/document.ts"
import type { OwnService } from "../../src/config/own-service.ts"
import { plan } from "../../src/config/plan.ts"

const own: OwnService = {
  urls: ["http://127.0.0.1:3050/", "https://svc.example.com/gateway"],
  program: "/opt/bin/gateway",
  serves: ({ config = "mcp.json", directory = "/home/me/.config/svc" }, cwd) =>
    ["/home/me/.config/svc/mcp.json", "/etc/svc/mcp.json"].includes(
      config.startsWith("/") ? config : `${config === "mcp.json" ? directory : cwd}/${config}`,
    ),
}
const world = { parent: {}, dotenv: { PORT: "3050" }, platform: "linux", home: "/home/me", folder: "/etc/svc", own }

const issuesOf = (server: unknown) =>
  plan(parseDocument(JSON.stringify({ mcpServers: { self: server } }), "mcp.json"), world).issues

test.each([
  { url: "http://127.0.0.1:3050/mcp" },
  { url: "http://localhost.:3050/mcp?preset=work" },
  { url: "http://[::1]:3050/sse" },
  { url: "http://127.0.0.2:${PORT}/servers/a/mcp", type: "sse" },
  { url: "http://0.0.0.0:3050/mcp" },
  { url: "https://SVC.example.com:443/mcp" },
  { command: "npx", args: ["-y", "mcp-remote@latest", "http://localhost:3050/mcp"] },
  { command: "svc", args: ["proxy", "--start"] },
  { command: "/home/me/.local/bin/svc", args: ["serve", "--transport", "stdio"] },
  { command: "svc", args: ["serve", "--transport=stdio", "--config", "/etc/svc/mcp.json"] },
  { command: "/opt/bin/gateway", args: ["proxy", "--config-dir=/etc/svc"] },
])("%j is refused: svc would serve itself [config:self]", (server) => {
  expect(issuesOf(server)).toMatchObject([
    {
      severity: "error",
      server: "self",
      path: ["mcpServers", "self"],
      message: expect.stringMatching(
        /^self is not loaded: .* this svc.*, which would serve itself; remove the server$/,
      ),
    },
  ])
})

test.each([
  { url: "http://127.0.0.1:3051/mcp" },
  { url: "http://other.example.com:3050/mcp" },
  { url: "https://svc.example.com:8443/mcp" },
  { command: "npx", args: ["-y", "mcp-remote", "https://other.example.com/mcp"] },
  { command: "monitor", args: ["http://localhost:3050/health"] },
  { command: "svc", args: ["demo-server"] },
  { command: "svc", args: ["proxy", "--config-dir", "/srv/other"] },
  { command: "svc", args: ["proxy"], env: { SVC_CONFIG_DIR: "/srv/other" } },
])("%j is another server [config:self]", (server) => {
  expect(issuesOf(server)).toEqual([])
})
