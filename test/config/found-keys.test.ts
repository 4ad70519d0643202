import { describe, expect, test } from "bun:test"
import { keysIn } from "../../src/config/found-keys.ts"
import type { Params } from "../../src/wire/message.ts"

/** Returns the keys of a server, as texts. */
const texts = (server: Params): readonly string[] =>
  keysIn(server).map(({ path: [section = "", member], start, end }) => {
    const value = server[section] as string & Readonly<Record<string, string>>
    return (member === undefined ? value : String(value[member])).slice(start, end)
  })

/** Made up, in the forms that services give out. */
const RANDOM = "Zk3vQ9xT7bLm2RwY8nHc5JdP4sGf6AeU"
const HEX = "9f86d081884c7d659a2feaa0c55ad015"
const KEYS: readonly (readonly [server: Params, key: string])[] = [
  [{ env: { OPENAI_API_KEY: `sk-proj-${RANDOM}` } }, `sk-proj-${RANDOM}`],
  [{ env: { ANTHROPIC_API_KEY: `sk-ant-api03-${RANDOM}` } }, `sk-ant-api03-${RANDOM}`],
  [{ env: { GITHUB_PERSONAL_ACCESS_TOKEN: `ghp_${RANDOM}1234` } }, `ghp_${RANDOM}1234`],
  [{ env: { WORDS: `github_pat_11AAAAAAA0${RANDOM}` } }, `github_pat_11AAAAAAA0${RANDOM}`],
  [{ env: { SLACK: `xoxb-123456789012-${RANDOM}` } }, `xoxb-123456789012-${RANDOM}`],
  [{ env: { GITLAB: `glpat-${RANDOM.slice(0, 20)}` } }, `glpat-${RANDOM.slice(0, 20)}`],
  [{ env: { MAPS: `AIzaSy${RANDOM}a` } }, `AIzaSy${RANDOM}a`],
  [
    { env: { AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE9" } },
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLE9",
  ],
  [{ env: { AWS_ACCESS_KEY_ID: "AKIAQ3EGUVXYZ2345678" } }, "AKIAQ3EGUVXYZ2345678"],
  [{ env: { STRIPE: `sk_live_${RANDOM}` } }, `sk_live_${RANDOM}`],
  [{ env: { NOTION: `ntn_123456789012${RANDOM}` } }, `ntn_123456789012${RANDOM}`],
  [{ env: { LINEAR: `lin_api_${RANDOM}` } }, `lin_api_${RANDOM}`],
  [{ env: { FIGMA: `figd_${RANDOM}` } }, `figd_${RANDOM}`],
  [{ env: { SUPABASE: `sbp_${HEX}01234567` } }, `sbp_${HEX}01234567`],
  [{ env: { GRAFANA: `glsa_${RANDOM}_1a2b3c4d` } }, `glsa_${RANDOM}_1a2b3c4d`],
  [{ env: { DATABRICKS: `dapi${HEX}` } }, `dapi${HEX}`],
  [{ env: { ATLASSIAN: `ATATT3xFfGF0${RANDOM}` } }, `ATATT3xFfGF0${RANDOM}`],
  [{ env: { TAVILY: `tvly-dev-${RANDOM}` } }, `tvly-dev-${RANDOM}`],
  [{ env: { FIRECRAWL: `fc-${HEX}` } }, `fc-${HEX}`],
  [{ env: { PERPLEXITY: `pplx-${RANDOM}` } }, `pplx-${RANDOM}`],
  [{ env: { SHOPIFY: `shpat_${HEX}` } }, `shpat_${HEX}`],
  [{ env: { OCEAN: `dop_v1_${HEX}${HEX}` } }, `dop_v1_${HEX}${HEX}`],
  [{ env: { NPM: `npm_${RANDOM}1234` } }, `npm_${RANDOM}1234`],
  [{ env: { DB_PASSWORD: "hunter2" } }, "hunter2"],
  [{ env: { PGPASSWORD: "correct horse" } }, "correct horse"],
  [{ env: { CLIENT_SECRET: "abc" } }, "abc"],
  [{ env: ["MODE=x", "MY_TOKEN=abcdef12"] }, "abcdef12"],
  [{ env: { DATABASE_URL: "postgresql://bob:hunter2@db.example.com/x" } }, "bob:hunter2"],
  [{ env: { REDIS_URL: "redis://:hunter2@cache:6379" } }, ":hunter2"],
  [{ headers: { Authorization: `Bearer ${RANDOM}` } }, `Bearer ${RANDOM}`],
  [{ headers: { "X-Api-Key": HEX } }, HEX],
  [{ headers: { "CF-Access-Client-Secret": HEX } }, HEX],
  [{ oauth: { clientSecret: "s3cret-value" } }, "s3cret-value"],
  [{ args: ["-y", "server-brave", "--api-key", "BSA0123456"] }, "BSA0123456"],
  [{ args: ["--access-token=abc123xyz"] }, "abc123xyz"],
  [{ args: ["run", "-e", "API_KEY=abc123xyz9", "image"] }, "abc123xyz9"],
  [{ args: ["mcp-remote", "https://x.example/sse", "--header", `Authorization: Bearer ${RANDOM}`] }, RANDOM],
  [{ args: ["postgres", "postgresql://bob:hunter2@localhost/db"] }, "bob:hunter2"],
  [{ args: ["--password", "hunter2"] }, "hunter2"],
  [{ url: `https://mcp.example.com/mcp?api_key=${HEX}` }, HEX],
  [{ url: "https://me:hunter2@mcp.example.com/mcp" }, "me:hunter2"],
  [{ url: `https://server.example/exa/mcp?profile=p&tavilyApiKey=${HEX}` }, HEX],
]

const HARMLESS: readonly Params[] = [
  ...["AUTH_TYPE=oauth", "AUTH_MODE=token", "TOKEN_LIMIT=4096", "MAX_TOKENS=4096", "TOKENIZER=cl100k", "AUTHOR=ann"],
  ...[
    "TOKEN_URL=https://id.example/token",
    "AUTH_ENDPOINT=https://id.example/a",
    "SECRET_NAME=prod/db",
    "KEY_FILE=/k.pem",
  ],
  ...[
    "SSH_KEY_PATH=~/.ssh/id_ed25519",
    "SSH_AUTH_SOCK=/run/x",
    "API_KEY_HEADER=X-Api-Key",
    "PASSWORD_FILE=/run/secrets/p",
  ],
  ...["AUTH_ENABLED=true", "USE_TOKEN=false", "SESSION_ID_LENGTH=32", "COOKIE_DOMAIN=example.com", "KEYBOARD=us"],
  ...["MONKEY=george", "PRIVATE_KEY=/etc/ssl/key.pem", "API_KEY=${API_KEY}", "API_KEY=$KEY", "TOKEN=<your token>"],
  ...[
    "API_KEY=YOUR_API_KEY",
    "PASSWORD=xxx",
    "PASSWORD=********",
    "SECRET={{user.name}}",
    "LOG_LEVEL=debug",
    "PORT=8080",
  ],
  ...["NODE_ENV=production", "HOME=/home/me", "URL=https://example.com/path?page=2", "DSN_NAME=main", "PASS_COUNT=3"],
  ...["ID=550e8400-e29b-41d4-a716-446655440000", "IMAGE=ghcr.io/a/b@sha256:0123456789abcdef0123456789abcdef"],
  ...["VERSION=1.2.3-beta.4", "EMAIL=ann@example.com", "DATABASE_URL=postgresql://localhost/db", "REGION=eu-central-1"],
].map((entry) => {
  const at = entry.indexOf("=")
  return { env: { [entry.slice(0, at)]: entry.slice(at + 1) } }
})
const HARMLESS_ARGS: readonly (readonly string[])[] = [
  ["-y", "@modelcontextprotocol/server-filesystem", "/home/me/keys"],
  ["--auth", "none"],
  ["--auth-type", "oauth"],
  ["--token-limit", "5000"],
  ["--max-tokens=4096"],
  ["--key-file", "/etc/ssl/key.pem"],
  ["--key-file=/etc/ssl/key.pem"],
  ["--password", "--verbose"],
  ["--header", "Accept: application/json"],
  ["--header", "Authorization: Bearer ${TOKEN}"],
  ["-e", "API_KEY"],
  ["https://mcp.example.com/mcp?version=2"],
  ["postgresql://localhost:5432/db"],
  ["mcp-server-git==2025.1.14"],
  ["--repository", "C:\\Users\\me\\src\\keys"],
  ["--session-id-length", "32"],
  ["--api-key", "${API_KEY}"],
]

describe("what looks like a key", () => {
  test.each(KEYS)("is found: %j", (server, key) => {
    expect(texts(server)).toEqual([key])
  })

  test.each(HARMLESS)("stays: %j", (server) => {
    expect(texts(server)).toEqual([])
  })

  test.each(HARMLESS_ARGS.map((args) => [{ command: "npx", args }]))("stays in arguments: %j", (server) => {
    expect(texts(server)).toEqual([])
  })
})
