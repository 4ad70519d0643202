/** The third-party servers, pinned. */

export type PeerServer = {
  readonly package: string
  readonly version: string
  /** The name of the executable, if the package has several. */
  readonly bin?: string
  /** The program in the package, if it is none of Node's. */
  readonly binary?: string
  /** What it is built with, if not with the SDK for TypeScript. */
  readonly sdk?: string
  readonly args?: readonly string[]
  /** Placeholders for credentials without which it does not start. */
  readonly env?: Readonly<Record<string, string>>
}

const PLACEHOLDER = "placeholder"
/** An address at which nothing answers. */
const NOWHERE = "http://127.0.0.1:9"
const GO = "Go, `modelcontextprotocol/go-sdk`"
const RUST = "Rust, `rmcp`"

export const PEER_SERVERS: readonly PeerServer[] = [
  { package: "@antv/mcp-server-chart", version: "0.9.10" },
  { package: "@brightdata/mcp", version: "2.11.3", env: { API_TOKEN: PLACEHOLDER } },
  { package: "@browsermcp/mcp", version: "0.1.3" },
  { package: "@circleci/mcp-server-circleci", version: "0.20.0" },
  { package: "@cyanheads/git-mcp-server", version: "2.15.3" },
  {
    package: "@elastic/mcp-server-elasticsearch",
    version: "0.3.1",
    env: { ES_URL: NOWHERE, ES_API_KEY: PLACEHOLDER },
  },
  { package: "@eslint/mcp", version: "0.3.13" },
  { package: "@executeautomation/playwright-mcp-server", version: "1.0.12" },
  { package: "@hubspot/mcp-server", version: "0.4.0", env: { PRIVATE_APP_ACCESS_TOKEN: PLACEHOLDER } },
  { package: "@mobilenext/mobile-mcp", version: "1.0.4" },
  { package: "@modelcontextprotocol/server-basic-vanillajs", version: "2.0.3", args: ["--stdio"] },
  { package: "@modelcontextprotocol/server-brave-search", version: "0.6.2", env: { BRAVE_API_KEY: PLACEHOLDER } },
  { package: "@modelcontextprotocol/server-everything", version: "2026.8.31" },
  { package: "@modelcontextprotocol/server-filesystem", version: "2026.8.31", args: ["."] },
  { package: "@modelcontextprotocol/server-github", version: "2025.4.8" },
  {
    package: "@modelcontextprotocol/server-gitlab",
    version: "2025.4.25",
    env: { GITLAB_PERSONAL_ACCESS_TOKEN: PLACEHOLDER },
  },
  { package: "@modelcontextprotocol/server-google-maps", version: "0.6.2", env: { GOOGLE_MAPS_API_KEY: PLACEHOLDER } },
  { package: "@modelcontextprotocol/server-map", version: "2.0.3", args: ["--stdio"] },
  { package: "@modelcontextprotocol/server-memory", version: "2026.8.31" },
  { package: "@modelcontextprotocol/server-pdf", version: "2.0.4", args: ["--stdio"] },
  { package: "@modelcontextprotocol/server-postgres", version: "0.6.2", args: ["postgresql://127.0.0.1:9/none"] },
  { package: "@modelcontextprotocol/server-puppeteer", version: "2025.5.12" },
  { package: "@modelcontextprotocol/server-sequential-thinking", version: "2026.8.31" },
  {
    package: "@modelcontextprotocol/server-slack",
    version: "2025.4.25",
    env: { SLACK_BOT_TOKEN: PLACEHOLDER, SLACK_TEAM_ID: PLACEHOLDER },
  },
  { package: "@mui/mcp", version: "0.1.5" },
  { package: "@notionhq/notion-mcp-server", version: "2.5.2" },
  { package: "@openbnb/mcp-server-airbnb", version: "0.3.0" },
  { package: "@playwright/mcp", version: "0.0.83" },
  { package: "@sentry/mcp-server", version: "0.36.0", env: { SENTRY_ACCESS_TOKEN: PLACEHOLDER } },
  { package: "@shopify/dev-mcp", version: "1.16.0" },
  { package: "@upstash/context7-mcp", version: "4.1.1" },
  { package: "@wonderwhy-er/desktop-commander", version: "0.2.52" },
  { package: "airtable-mcp-server", version: "1.14.0", env: { AIRTABLE_API_KEY: PLACEHOLDER } },
  { package: "chrome-devtools-mcp", version: "1.11.0" },
  { package: "exa-mcp-server", version: "3.4.1" },
  { package: "fetcher-mcp", version: "0.3.9" },
  { package: "figma-developer-mcp", version: "0.13.2", args: ["--stdio"], env: { FIGMA_API_KEY: PLACEHOLDER } },
  { package: "firecrawl-mcp", version: "3.22.2" },
  { package: "hyperbrowser-mcp", version: "1.0.25" },
  { package: "mcp-obsidian", version: "1.0.0", args: ["."] },
  { package: "mcp-searxng", version: "1.16.0" },
  { package: "mcp-server-kubernetes", version: "4.1.7" },
  { package: "mongodb-mcp-server", version: "3.0.4" },
  { package: "puppeteer-mcp-server", version: "0.7.2" },
  { package: "tavily-mcp", version: "0.2.22" },
  { package: "xcodebuildmcp", version: "2.7.0", args: ["mcp"] },
  // Programs in other languages.
  {
    package: "mcp-alertmanager-linux-amd64",
    version: "2.1.1",
    binary: "bin/mcp-alertmanager-linux-amd64",
    args: ["--url", NOWHERE],
    sdk: GO,
  },
  {
    package: "mcp-cron-linux-amd64",
    version: "0.9.1",
    binary: "bin/mcp-cron",
    args: ["--transport", "stdio"],
    sdk: GO,
  },
  {
    package: "mcp-prometheus-linux-amd64",
    version: "2.1.1",
    binary: "bin/mcp-prometheus-linux-amd64",
    args: ["--url", NOWHERE],
    sdk: GO,
  },
  { package: "@onshape-mcp/linux-x64", version: "0.5.2", binary: "bin/onshape-mcp", sdk: `${RUST} 2.2` },
  { package: "@temporal-cortex/cortex-mcp-linux-x64", version: "0.9.1", binary: "bin/cortex-mcp", sdk: `${RUST} 1.1` },
  {
    package: "@vaulttools/mcp-linux-x64",
    version: "0.1.7",
    binary: "bin/vaulttools-mcp",
    args: ["--allowed-dir", "."],
    sdk: `${RUST} 0.16`,
  },
  {
    package: "@kanoniv/mcp-linux-x64",
    version: "0.3.7",
    binary: "kanoniv-mcp",
    env: { KANONIV_API_KEY: PLACEHOLDER },
    sdk: "Rust, none",
  },
  { package: "@leanspec/mcp-linux-x64", version: "0.3.0", binary: "leanspec-mcp", sdk: "Rust, none" },
  { package: "@azure/mcp-linux-x64", version: "2.0.5", binary: "dist/azmcp", args: ["server", "start"], sdk: "C#" },
]
