/** The dashboard and the alerts of docs/monitoring, in a real Prometheus that scrapes a real svc. */
import { describe, expect, test } from "bun:test"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { echo, eventually, fixture, freePort, freshFolder, modern, ROOT, startSvc, svcIn } from "./harness.ts"
import { findProgram } from "./page.ts"

const FOLDER = join(ROOT, "docs", "monitoring")
const ALERTS = readFileSync(join(FOLDER, "prometheus-alerts.yml"), "utf8")
const RULES = (Bun.YAML.parse(ALERTS) as { groups: readonly [{ rules: readonly { alert: string }[] }] }).groups[0].rules
type Panel = { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }
const { panels } = JSON.parse(readFileSync(join(FOLDER, "grafana-dashboard.json"), "utf8")) as {
  readonly panels: readonly Panel[]
}

/** Debian's package, which is not installed: it would start a service. */
const found = findProgram("prometheus")
if (found === null)
  process.stderr.write(
    "the tests of the dashboard and the alerts are skipped: there is no Prometheus (apt-get install prometheus)\n",
  )
const program = (name: string) => (found == null ? name : join(found, name))

/** The series in which each alert fires for the instance "bad", and does not for "good". */
const CASES: Readonly<Record<string, readonly (readonly [series: string, bad: string, good: string])[]>> = {
  SvcDown: [['up{job="svc"', "0x30", "1x30"]],
  SvcServerDown: [['svc_server_state{server="a",status="error"', "1x30", "0x30"]],
  SvcServerNeedsSignIn: [['svc_server_state{server="a",status="awaiting_oauth"', "1x30", "0x30"]],
  SvcServerRestartsOften: [['svc_server_restarts_total{server="a"', "0+1x30", "0x20 1x10"]],
  SvcCallsFail: [
    ['svc_calls_total{server="a",tool="t",outcome="ok"', "0+10x30", "0+90x30"],
    ['svc_calls_total{server="a",tool="t",outcome="error"', "0+10x30", "0+10x30"],
  ],
  SvcCallsSlow: [
    [
      'mcp_client_operation_duration_seconds_bucket{svc_server="a",mcp_method_name="tools/call",le="10"',
      "0x30",
      "0+60x30",
    ],
    [
      'mcp_client_operation_duration_seconds_bucket{svc_server="a",mcp_method_name="tools/call",le="30"',
      "0+60x30",
      "0+60x30",
    ],
    [
      'mcp_client_operation_duration_seconds_bucket{svc_server="a",mcp_method_name="tools/call",le="+Inf"',
      "0+60x30",
      "0+60x30",
    ],
  ],
  SvcCallsWait: [["svc_calls_waiting{", "11x30", "10x30"]],
  SvcConfigurationHasErrors: [['svc_configuration_issues{severity="error"', "1x30", "0x30"]],
  SvcReloadRefused: [['svc_reloads_total{result="refused"', "0x20 1x10", "1x30"]],
  SvcLoginsRefused: [["svc_refused_logins_total{", "0+90x30", "0+30x30"]],
  SvcRequestsFail: [
    [
      'http_server_request_duration_seconds_count{http_route="/mcp",http_response_status_code="200"',
      "0+90x30",
      "0+99x30",
    ],
    [
      'http_server_request_duration_seconds_count{http_route="/mcp",http_response_status_code="503"',
      "0+10x30",
      "0+1x30",
    ],
    [
      'http_server_request_duration_seconds_count{http_route="/health",http_response_status_code="503"',
      "0x30",
      "0+99x30",
    ],
  ],
  SvcFilesRunOut: [
    ["process_open_fds{", "90x30", "70x30"],
    ["process_max_fds{", "100x30", "100x30"],
    ["svc_build_info{", "1x30", "1x30"],
  ],
  SvcSpansDropped: [['svc_spans_total{result="dropped"', "0+1x30", "5x30"]],
  SvcSharedStateLost: [["svc_shared_state_connected{", "0x30", "1x30"]],
}

/** What cannot be brought about quickly. */
const NOT_LIVE = ["SvcCallsSlow", "SvcFilesRunOut", "SvcSharedStateLost"]
const WAKE_MS = 1500
const WINDOW = "10s"

describe.skipIf(found === null)("in Prometheus", () => {
  test("each alert fires for what it is for, and only then [metrics:alerts]", async () => {
    expect(Object.keys(CASES)).toEqual(RULES.map(({ alert }) => alert))
    const folder = freshFolder({ "alerts.yml": ALERTS })
    const input_series = Object.values(CASES).flatMap((series) =>
      series.flatMap(([name, bad, good]) =>
        [bad, good].map((values, at) => ({
          series: `${name}${name.endsWith("{") ? "" : ","}instance="${at === 0 ? "bad" : "good"}"}`,
          values,
        })),
      ),
    )
    const firing = 'ALERTS{alertstate="firing"}'
    const exp_samples = RULES.map(({ alert }) => ({ labels: `{alertname="${alert}", instance="bad"}`, value: 1 }))
    const promql_expr_test = [
      { expr: `count by (alertname, instance) (${firing})`, eval_time: "25m", exp_samples },
      // Nothing fires at once.
      { expr: `count by (alertname, instance) (${firing})`, eval_time: "0m", exp_samples: [] },
    ]
    const tests = [{ interval: "1m", input_series, promql_expr_test }]
    writeFileSync(
      join(folder, "test.yml"),
      JSON.stringify({ rule_files: ["alerts.yml"], evaluation_interval: "1m", tests }),
    )
    const run = Bun.spawnSync([program("promtool"), "test", "rules", "test.yml"], { cwd: folder })
    expect(run.stdout.toString() + run.stderr.toString()).toContain("SUCCESS")
    expect(run.exitCode).toBe(0)
  })

  test("all queries of the dashboard have data, and the alerts fire [metrics:dashboard] [metrics:alerts]", async () => {
    const folder = freshFolder()
    const token = async (...flags: readonly string[]) =>
      (await svcIn(folder)("auth", "token", "create", ...flags)).stdout.trim()
    const scraping = await token("prometheus", "--metrics-only")
    const headers = { authorization: `Bearer ${await token("client")}` }
    // It wants a sign-in, and refuses spans.
    using refusing = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      fetch: (request) => new Response(undefined, { status: request.url.includes("/v1/") ? 400 : 401 }),
    })
    const failing = { command: "false" }
    const config = {
      mcpServers: {
        well: echo(),
        faulty: { command: "bun", args: [fixture("everything-2x.ts")] },
        sleepy: { ...echo(), idleTimeout: 50 },
        slow: { command: "sleep", args: ["120"] },
        restless: { ...failing, restartOnExit: true, maxRestarts: 0, restartDelay: 100 },
        dead: failing,
        guarded: { type: "http", url: `${refusing.url}mcp` },
        unset: { type: "http", url: "https://example.com", headers: { "x-key": "${NOWHERE}" } },
      },
    }
    await using svc = await startSvc({
      folder,
      config,
      flags: ["--auth", "--metrics", "--metrics-principals", "--otlp-endpoint", refusing.url.origin],
    })
    const port = await freePort()
    const scraped = [new URL(svc.url).host, `127.0.0.1:${await freePort()}`]
    const home = join(folder, "prometheus")
    mkdirSync(home)
    // Each duration is short; `for` is none.
    const alerts = ALERTS.replace(/^(\s+for:) \S+$/gm, "$1 0s").replace(/\[\d+m\]/g, `[${WINDOW}]`)
    writeFileSync(join(home, "alerts.yml"), alerts)
    const times = { scrape_interval: "250ms", scrape_timeout: "250ms", evaluation_interval: "250ms" }
    const job = { job_name: "svc", authorization: { credentials: scraping }, static_configs: [{ targets: scraped }] }
    writeFileSync(
      join(home, "prometheus.yml"),
      JSON.stringify({ global: times, rule_files: ["alerts.yml"], scrape_configs: [job] }),
    )
    const prometheus = Bun.spawn(
      [
        program("prometheus"),
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { cwd: home, stdout: "ignore", stderr: "ignore" },
    )
    const ask = async (path: string) => {
      const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`).catch(() => undefined)
      const body = (await response?.json().catch(() => undefined)) as
        | { data?: { alerts?: unknown; result?: unknown } }
        | undefined
      return (body?.data?.alerts ?? body?.data?.result ?? []) as readonly {
        readonly labels: Readonly<Record<string, string>>
        readonly state: string
        readonly value: readonly [number, string]
      }[]
    }
    const call = (name: string) => modern(`${svc.url}/mcp`, "tools/call", { name, arguments: {} }, headers)
    const initialize = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } }
    const post = (path: string, authorization: string) =>
      fetch(`${svc.url}${path}`, {
        method: "POST",
        headers: { authorization, "content-type": "application/json", accept: "application/json, text/event-stream" },
        body: JSON.stringify(initialize),
      })
    let isOver = false
    const waiting = Array.from({ length: 12 }, async () => {
      while (!isOver) await call("slow_svc_echo").catch(() => undefined)
    })
    // A server sleeps only between calls that are far enough apart.
    let lastWake = 0
    const wake = () => {
      if (Date.now() - lastWake < WAKE_MS) return undefined
      lastWake = Date.now()
      return call("sleepy_svc_echo")
    }
    const traffic = () =>
      Promise.all([
        wake(),
        ...["well_svc_echo", "faulty_svc_test_error_handling"].map(call),
        post("/servers/dead/mcp", headers.authorization),
        ...[1, 2, 3].map(() => post("/mcp", "Bearer svc_wrong")),
      ])
    try {
      const queries = panels.flatMap(({ title, targets = [] }) =>
        targets.map(({ expr }) => ({
          title,
          expr: expr.replaceAll("$__rate_interval", WINDOW).replaceAll("$instance", ".*"),
        })),
      )
      expect(queries.length).toBeGreaterThan(30)
      await eventually(async () => (await ask("query?query=svc_reloads_total")).length > 0)
      svc.write("{")
      const missing = new Map(queries.map(({ title, expr }) => [expr, title]))
      const quiet = new Set(RULES.map(({ alert }) => alert).filter((alert) => !NOT_LIVE.includes(alert)))
      await eventually(async () => {
        await traffic()
        const look = async (expr: string) => {
          const result = await ask(`query?query=${encodeURIComponent(expr)}`)
          if (result.some(({ value }) => value[1] !== "NaN")) missing.delete(expr)
        }
        await Promise.all([...missing.keys()].map(look))
        for (const { state, labels } of await ask("alerts"))
          if (state === "firing") quiet.delete(labels.alertname ?? "")
        return missing.size + quiet.size === 0
      }, 45_000).catch(() => undefined)
      expect({ missing: [...missing], quiet: [...quiet] }).toEqual({ missing: [], quiet: [] })
    } finally {
      isOver = true
      prometheus.kill()
      await prometheus.exited
      svc.signal("SIGKILL")
      await Promise.all(waiting)
    }
  }, 90_000)
})
