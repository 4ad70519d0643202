/**
 * The structure of the source: the core has an order and knows no feature, a feature knows the core and itself, there are
 * no import cycles, and only the files listed here use the outside world.
 */
import { describe, expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { Glob } from "bun"

/** The core, in its order: a folder imports from itself and from the folders before it. */
const CORE = [
  "lib",
  "wire",
  "config",
  "template",
  "store",
  "catalog",
  "backend",
  "agent",
  "report",
  "call",
  "session",
  "serve",
]

/** What knows features: a running svc, what commands share, the commands and the entry point, in their order. */
const TOP = ["app", "commands", "cli", "main"]

/** Features that build on another feature, each with its reason. Deleting the second one deletes the first one, too. */
const FEATURE_PAIRS: Readonly<Record<string, string>> = {
  "tools -> registry": "management tools install servers that registries describe",
  "rest -> tools": "REST runs the management tools",
}

/** Files that may use the clock, processes, the disk, the network or randomness. All other files get these as parameters. */
const WORLD = [
  "app/access-log.ts",
  "app/client-sessions.ts",
  "app/config-paths.ts",
  "app/control-handlers.ts",
  "app/demo.ts",
  "app/features.ts",
  "app/file-limit.ts",
  "app/http-service.ts",
  "app/inbound-auth.ts",
  "app/metric-families.ts",
  "app/project-context.ts",
  "app/reload-loop.ts",
  "app/runtime.ts",
  "app/service.ts",
  "app/stdio-service.ts",
  "app/tls.ts",
  "app/upstream.ts",
  "backend/http-client.ts",
  "backend/job-object.ts",
  "backend/process-tree.ts",
  "backend/reaper.ts",
  "backend/short-command.ts",
  "backend/ssrf.ts",
  "backend/stdio.ts",
  "cli/activity.ts",
  "cli/auth-login.ts",
  "cli/auth-token.ts",
  "cli/backup.ts",
  "cli/complete.ts",
  "cli/completion.ts",
  "cli/config-import.ts",
  "cli/config.ts",
  "cli/connect.ts",
  "cli/demo-server.ts",
  "cli/health.ts",
  "cli/help.ts",
  "cli/logs.ts",
  "cli/mcp-add-json.ts",
  "cli/mcp-add.ts",
  "cli/mcp-render.ts",
  "cli/notify.ts",
  "cli/proxy.ts",
  "cli/ps.ts",
  "cli/run-words.ts",
  "cli/run.ts",
  "cli/secret.ts",
  "cli/serve.ts",
  "cli/service.ts",
  "cli/setup.ts",
  "cli/stop.ts",
  "cli/uninstall.ts",
  "cli/upgrade.ts",
  "commands/background.ts",
  "commands/client-commands.ts",
  "commands/open-browser.ts",
  "commands/proxy-connection.ts",
  "commands/remote-sign-in.ts",
  "commands/shell-client.ts",
  "features/cluster/cluster-keys.ts",
  "features/cluster/cluster-tokens.ts",
  "features/cluster/cluster.ts",
  "features/cluster/redis-problem.ts",
  "features/cluster/redis-state.ts",
  "features/connect/client-connection.ts",
  "features/connect/client-endpoint.ts",
  "features/connect/clients-check.ts",
  "features/connect/connections.ts",
  "features/connect/dead-address.ts",
  "features/connect/found-servers.ts",
  "features/connect/setup-record.ts",
  "features/doctor/doctor-files.ts",
  "features/doctor/doctor-remotes.ts",
  "features/doctor/doctor.ts",
  "features/notify/system-senders.ts",
  "features/oauth/oauth-client.ts",
  "features/oauth/upstream-oauth.ts",
  "features/registry/cache.ts",
  "features/rest/admin-page.ts",
  "features/rest/own-commands.ts",
  "features/results/result-store.ts",
  "features/secrets/secret-store.ts",
  "features/secrets/system-sources.ts",
  "features/system/handover.ts",
  "features/system/purge.ts",
  "features/system/release-download.ts",
  "features/system/sd-notify.ts",
  "features/system/service-user.ts",
  "features/system/upgrade.ts",
  "features/tools/internal-tools.ts",
  "lib/address.ts",
  "lib/clock.ts",
  "lib/digest.ts",
  "lib/home-directory.ts",
  "lib/interrupt.ts",
  "lib/journal.ts",
  "lib/minisign.ts",
  "lib/output.ts",
  "lib/own-command.ts",
  "lib/process-usage.ts",
  "lib/prompt.ts",
  "lib/seal.ts",
  "lib/table.ts",
  "lib/windows-lock.ts",
  "main.ts",
  "serve/control-socket.ts",
  "serve/default-address.ts",
  "serve/local-configuration.ts",
  "serve/port-in-use.ts",
  "serve/proxy-server.ts",
  "serve/server.ts",
  "serve/token-issuer.ts",
  "store/bundles.ts",
  "store/client-tokens.ts",
  "store/documents.ts",
  "store/files.ts",
  "store/gone-configurations.ts",
  "store/listings.ts",
  "store/lock.ts",
  "store/paths.ts",
  "store/running.ts",
  "store/secret-store.ts",
  "store/server-logs.ts",
  "store/session-store.ts",
  "store/tool-pins.ts",
  "store/transaction.ts",
  "store/watch.ts",
  "template/project.ts",
]

const TOUCHES = [
  /\bBun\./,
  /\bprocess\./,
  /(?<![.\w])fetch\(/,
  /\bDate\.now\b/,
  /\bnew Date\(\)/,
  /\bsetTimeout\(/,
  /\bsetInterval\(/,
  /\bsetImmediate\(/,
  /\bMath\.random\b/,
  /\bcrypto\.random/,
  /from "bun:/,
  /\bnew RedisClient\(/,
  /from "node:(fs|child_process|net|http|os|crypto)/,
]

/**
 * How many calls of fetch pass headers on and do not say what happens at a redirect, by file, with the reason. Requests with the
 * configured headers of a server go through `fetchInOrigin`, because fetch sends most headers on to any origin.
 */
const FOLLOWING: Readonly<Record<string, readonly [calls: number, reason: string]>> = {
  "app/features.ts": [1, "passes on what boundedFetch sends"],
  "features/connect/client-endpoint.ts": [1, "asks svc itself, without credentials"],
  "features/cluster/replica-clients.ts": [1, "passes on what features/cluster/forward.ts sends"],
  "commands/remote-sign-in.ts": [1, "discovers the authorization server, without the server's headers"],
  "app/inbound-auth.ts": [1, "passes on what the token issuer sends"],
  "features/oauth/upstream-oauth.ts": [1, "passes on what fetchInOrigin and boundedFetch send"],
  "app/upstream.ts": [3, "passes on what fetchInOrigin sends"],
  "backend/connection-attempt.ts": [1, "passes on what fetchInOrigin sends"],
  "backend/http-client.ts": [1, "passes on what fetchInOrigin sends"],
  "cli/health.ts": [2, "sends only Authorization, which fetch removes at another origin"],
  "features/oauth/oauth-client.ts": [1, "sends over boundedFetch, which follows no redirect of a POST"],
  "features/oauth/unattended-grant.ts": [2, "sends over boundedFetch, to the identity provider alone"],
  "serve/control-socket.ts": [2, "asks svc itself"],
  "serve/token-issuer.ts": [1, "sends no credentials"],
}

/** Files that write an HTTP error status themselves. All others get it from the table in lib/errors.ts. */
const STATUS_WRITERS = ["lib/errors.ts"]

/** An error status that is assigned, returned, chosen or passed first; comparisons read the status of another's response. */
const WRITES_STATUS =
  /(?:(?:\b(?:status|http)\s*=|\breturn|[?:])\s*(?:40\d|41\d|42\d|50[0-4])\b\s*[,;:)}\n]|\((?:40\d|41\d|42\d|50[0-4]),)/

const root = join(import.meta.dir, "..", "src")
const files = [...new Glob("**/*.{ts,tsx}").scanSync(root)].sort()
const source = new Map(files.map((file) => [file, readFileSync(join(root, file), "utf8")]))

/** Returns the text without comments and strings, so that prose does not count as code. Import paths are kept. */
function code(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/^\s*\/\/.*$/gm, "")
    .replace(/(?<!from )"(?:[^"\\\n]|\\.)*"/g, '""')
    .replace(/`(?:[^`\\]|\\.)*`/g, (whole) => [...whole.matchAll(/\$\{([^}]*)\}/g)].map(([, inner]) => inner).join(";"))
}

/** Returns the project's files that a file imports, including imports of types. */
function imports(file: string): string[] {
  const text = source.get(file) ?? ""
  return [...text.matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)].map(([, path = ""]) =>
    relative(root, join(root, dirname(file), path)),
  )
}

/** Returns the room of a file: a folder of src, or features/NAME. A file directly in src is a room of its own. */
const room = (file: string): string => {
  const [first = "", second = ""] = file.split("/")
  if (first === "features") return `features/${second}`
  return file.includes("/") ? first : file.replace(/\.tsx?$/, "")
}

const isFeature = (name: string): boolean => name.startsWith("features/")

/** Returns whether a file in one room may import from another room. */
function mayImport(from: string, to: string): boolean {
  if (from === to) return true
  // The page is code for a browser; "the admin page" below says what it may import, and who serves it.
  if (from === "admin") return true
  if (to === "admin") return from === "features/rest"
  if (CORE.includes(from)) return CORE.includes(to) && CORE.indexOf(to) < CORE.indexOf(from)
  if (isFeature(from)) return CORE.includes(to) || `${from} -> ${to}`.replaceAll("features/", "") in FEATURE_PAIRS
  return CORE.includes(to) || isFeature(to) || TOP.indexOf(to) < TOP.indexOf(from)
}

/** Counts the calls of fetch functions that pass headers on and do not say what happens at a redirect. */
function followingCalls(text: string): number {
  let count = 0
  for (const { 0: name, index } of text.matchAll(/\b\w*[fF]etch(?:Fn)?\(/g)) {
    const start = index + name.length
    let end = start
    for (let depth = 1; depth > 0 && end < text.length; end++) {
      if ("([{".includes(text.charAt(end))) depth++
      if (")]}".includes(text.charAt(end))) depth--
    }
    const given = text.slice(start, end - 1)
    if (/\b(?:headers|init)\b/.test(given) && !/\binit: RequestInit\b|\bredirect\b/.test(given)) count++
  }
  return count
}

describe("layers", () => {
  test("every file is in the core, in a feature, in the composition or in the admin page", () => {
    const known = (name: string) => CORE.includes(name) || TOP.includes(name) || isFeature(name) || name === "admin"
    expect(files.filter((file) => !known(room(file)))).toEqual([])
  })

  test("the core imports no feature, a feature imports the core and itself, and the core keeps its order", () => {
    const wrong = files.flatMap((file) =>
      imports(file)
        .filter((target) => source.has(target) && !mayImport(room(file), room(target)))
        .map((target) => `${file} -> ${target}`),
    )
    expect(wrong).toEqual([])
  })

  test("the tests of the core import no feature", () => {
    const naming = CORE.flatMap((folder) => {
      const tests = [...new Glob(`${folder}/**/*.{ts,tsx}`).scanSync(import.meta.dir)].sort()
      return tests.filter((file) => /"[./]+\/src\/features\//.test(readFileSync(join(import.meta.dir, file), "utf8")))
    })
    expect(naming).toEqual([])
  })

  test("the composition names features in one file", () => {
    const naming = files.filter(
      (file) => room(file) === "app" && imports(file).some((target) => isFeature(room(target))),
    )
    expect(naming).toEqual(["app/features.ts"])
  })

  test("a pair of features is declared only while one imports the other", () => {
    const used = files.flatMap((file) =>
      imports(file).map((target) => `${room(file)} -> ${room(target)}`.replaceAll("features/", "")),
    )
    expect(Object.keys(FEATURE_PAIRS).filter((pair) => !used.includes(pair))).toEqual([])
  })

  test("there are no import cycles", () => {
    const circles: string[] = []
    const done = new Set<string>()
    const walk = (file: string, path: readonly string[]) => {
      const at = path.indexOf(file)
      if (at >= 0) {
        circles.push([...path.slice(at), file].join(" -> "))
        return
      }
      if (done.has(file)) return
      for (const target of imports(file)) if (source.has(target)) walk(target, [...path, file])
      done.add(file)
    }
    for (const file of files) walk(file, [])
    expect(circles).toEqual([])
  })

  test("an exported type name is declared once in src", () => {
    const program = files.filter((file) => room(file) !== "admin")
    const declared = new Map<string, string[]>()
    const exported = new Set<string>()
    for (const file of program)
      for (const [, exports, name = ""] of code(source.get(file) ?? "").matchAll(
        /^(export )?(?:abstract )?(?:type|interface|class|enum) (\w+)\b/gm,
      )) {
        declared.set(name, [...(declared.get(name) ?? []), file])
        if (exports !== undefined) exported.add(name)
      }
    expect([...declared].filter(([name, places]) => exported.has(name) && places.length > 1)).toEqual([])
  })

  test("a request with configured headers goes nowhere but to the origin of its url [remote:redirect]", () => {
    const own = ["backend/http.ts"]
    const following = files
      .filter((file) => room(file) !== "admin")
      .flatMap((file) => {
        const calls = own.includes(file) ? 0 : followingCalls(code(source.get(file) ?? ""))
        return calls === 0 ? [] : [[file, calls]]
      })
    expect(Object.fromEntries(following)).toEqual(
      Object.fromEntries(Object.entries(FOLLOWING).map(([file, [calls]]) => [file, calls])),
    )
    expect(followingCalls("deps.fetch(launch.url, { headers: { ...launch.headers }, signal })")).toBe(1)
  })

  test("only the files listed here use the outside world, and each of them does", () => {
    const touching = files.filter(
      (file) => room(file) !== "admin" && TOUCHES.some((pattern) => pattern.test(code(source.get(file) ?? ""))),
    )
    expect(touching).toEqual(WORLD)
  })

  test("only the table of errors writes HTTP error statuses, so that an error has one status on every path", () => {
    for (const text of [
      "{ status: 404 }",
      "answer(400, body)",
      "return 503\n",
      "known ? 400 : 502\n",
      "status = 429\n",
    ])
      expect([text, WRITES_STATUS.test(text)]).toEqual([text, true])
    for (const text of ["status === 401)", "[400, 404].includes(status)", "MAX = 500\n", "slice(0, 400)", ".max(500)"])
      expect([text, WRITES_STATUS.test(text)]).toEqual([text, false])
    const writing = files.filter((file) => WRITES_STATUS.test(code(source.get(file) ?? "")))
    expect(writing).toEqual(STATUS_WRITERS)
  })

  test("no default exports, no barrels, no any, no vague class names", () => {
    const found = files.flatMap((file) => {
      const text = code(source.get(file) ?? "")
      return [
        ...(/^export default/m.test(text) ? [`${file}: default export`] : []),
        ...(/(^|\/)index\.ts$/.test(file) ? [`${file}: barrel`] : []),
        ...(/[:<,|&(]\s*any\b(?!\w)|\bas any\b/.test(text) ? [`${file}: any`] : []),
        ...[...text.matchAll(/class (\w*(?:Manager|Service|Handler|Provider|Orchestrator|Factory))\b/g)].map(
          ([, name]) => `${file}: ${name}`,
        ),
      ]
    })
    expect(found).toEqual([])
  })
})

describe("the admin page", () => {
  const pages = files.filter((file) => room(file) === "admin")

  test("it imports only types from the program, whose code does not belong in a browser", () => {
    const wrong = pages.flatMap((file) =>
      [...(source.get(file) ?? "").matchAll(/^import (?!type )[^"]*"(\.[^"]+)"/gms)]
        .filter(([, path = ""]) => !join("src", dirname(file), path).startsWith("src/admin/"))
        .map(([line]) => `${file}: ${line}`),
    )
    expect(wrong).toEqual([])
  })

  test("it writes no raw HTML: texts of servers stay texts", () => {
    const writes = /\b(?:dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|srcdoc)\b/
    expect(pages.filter((file) => writes.test(source.get(file) ?? ""))).toEqual([])
  })
})
