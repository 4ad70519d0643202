/**
 * The checks of `svc doctor`: functions from the state of this machine to findings.
 *
 *  1. All checks run at the same time, and each for CHECK_MS at most.
 *  2. A check changes nothing. Its findings contain safe repairs, which the command runs if the person agrees.
 *  3. A finding names no secret: it shows names of variables, hosts and paths.
 */
import { existsSync, statSync } from "node:fs"
import { join } from "node:path"
import { keyHolders } from "../../config/edit.ts"
import { keysIn } from "../../config/found-keys.ts"
import { referencesIn } from "../../config/substitution.ts"
import { ConfigError, type Issue, messageOf } from "../../lib/errors.ts"
import { createRedactor } from "../../lib/redact.ts"
import { isSecretName } from "../../lib/secret-names.ts"
import { counted } from "../../lib/text.ts"
import { version } from "../../lib/version.ts"
import type { ServerState } from "../../report/server-state.ts"
import { sharedStateNotes } from "../../report/shared-state.ts"
import type { ServerStatus } from "../../report/status.ts"
import { DEFAULT_PORT, namedPort } from "../../serve/default-address.ts"
import type { DoctorCheck, Finding, Installation } from "../../serve/doctor-check.ts"
import { DEFINITIONS, findLimitIssues } from "../../serve/limit-issues.ts"
import {
  commandProblem,
  configuredSecrets,
  findIssues,
  type LocalConfiguration,
  variableFix,
} from "../../serve/local-configuration.ts"
import { readTexts } from "../../store/documents.ts"
import { checkLeftovers, checkPermissions } from "./doctor-files.ts"
import { checkRemotes, headerFix, type SignIn, urlFix } from "./doctor-remotes.ts"

/** Runs the checks. Calls `onslow` with the subject of each that takes longer than a second. */
export async function diagnose(
  installation: Installation,
  checks: readonly DoctorCheck[],
  onslow: (subject: string) => void,
): Promise<readonly Finding[]> {
  const { clock } = installation
  const found = checks.map(async ({ id, subject, run }): Promise<readonly Finding[]> => {
    const cancelSlow = clock.after(SLOW_MS, () => onslow(subject))
    const late = Promise.withResolvers<readonly Finding[]>()
    const unfinished = (why: string): Finding => ({
      check: id,
      severity: "warning",
      what: `${subject} could not be checked`,
      why,
      fix: "run `svc doctor` again",
    })
    const cancel = clock.after(CHECK_MS, () => late.resolve([unfinished(`no result within ${CHECK_MS / 1000} s`)]))
    try {
      return await Promise.race([run(installation), late.promise])
    } catch (error) {
      return [unfinished(messageOf(error))]
    } finally {
      cancelSlow()
      cancel()
    }
  })
  const { maskKnown } = createRedactor(configuredSecrets(installation.context))
  const findings = (await Promise.all(found)).flat()
  return findings
    .filter((one) => !isConsequence(one, findings))
    .map((finding) => ({ ...finding, what: maskKnown(finding.what) }))
}

/** What other features add: checks of their own, and the sign-in to remote servers, without which svc signs in nowhere. */
type Additions = { readonly checks: readonly DoctorCheck[]; readonly signIn?: SignIn }

/** Returns the checks in the order of their findings. */
export function checksWith({ checks, signIn }: Additions): readonly DoctorCheck[] {
  return [
    { id: "configuration", subject: "the configuration", run: checkConfiguration },
    { id: "limits", subject: "the limits of clients", run: checkLimits },
    { id: "commands", subject: "the commands of the servers", run: checkCommands },
    { id: "arguments", subject: "the arguments of the servers", run: checkArguments },
    { id: "node", subject: "the version of Node.js", run: checkNode },
    { id: "servers", subject: "the running servers", run: checkServers },
    { id: "remotes", subject: "the remote servers", run: (installation) => checkRemotes(installation, signIn) },
    { id: "shared-state", subject: "the shared state of the cluster", run: checkSharedState },
    { id: "port", subject: "the port", run: checkPort },
    { id: "permissions", subject: "the permissions of files", run: checkPermissions },
    ...checks,
    { id: "leftovers", subject: "the files of earlier processes", run: checkLeftovers },
    { id: "version", subject: "the version of the running svc", run: checkVersion },
  ]
}

// ---

/** Whether a finding only says that a server does not run, and another finding names the cause. */
const isConsequence = ({ check, severity, subject }: Finding, findings: readonly Finding[]): boolean =>
  check === "servers" &&
  severity === "error" &&
  findings.some((one) => one.check !== check && one.severity === severity && one.subject === subject)

const SLOW_MS = 1000
const CHECK_MS = 15_000
const OLDEST_NODE = 20
function checkConfiguration({ context }: Installation): readonly Finding[] {
  const { paths } = context
  // The default file may be missing: `svc serve` creates it.
  if (paths.file !== join(paths.directory, "mcp.json") && !existsSync(paths.file))
    return [
      {
        check: "configuration",
        severity: "error",
        what: `${paths.file} does not exist`,
        why: "svc cannot load the file",
        fix: "correct --config, or create the file with `svc serve --init --config FILE`",
      },
    ]
  return findIssues(context, () => readTexts(paths)).map(({ message, severity, server, ...place }): Finding => {
    const fix = variableFix(message, paths)
    const about = { check: fix === undefined ? "configuration" : "variables", severity, what: message }
    const subject = server === undefined ? {} : { subject: server }
    const at = place.line === undefined ? paths.file : `${place.file ?? paths.file}:${place.line}`
    return fix === undefined
      ? { ...about, ...subject, why: whyOf(severity, server), fix: `correct ${at}; \`svc config check\` checks it` }
      : {
          ...about,
          ...subject,
          why: "svc does not run the server without it",
          fix,
        }
  })
}

function whyOf(severity: Issue["severity"], server: string | undefined): string {
  if (severity === "warning") return "svc ignores this part of the file"
  return server === undefined ? "svc cannot load the file" : "svc cannot run the server"
}

async function checkLimits({ context }: Installation): Promise<readonly Finding[]> {
  return (await findLimitIssues(context)).map(({ code, message, server }): Finding => {
    if (code === DEFINITIONS && server !== undefined)
      return {
        check: "limits",
        severity: "warning",
        subject: server,
        what: message,
        why: "clients refuse a whole list with such an entry, so svc offers it without the faulty part, or leaves it out",
        fix: "update the server, or report this to its author",
      }
    const { why, fix } = LIMIT_ADVICE.find(({ pattern }) => pattern.test(message)) ?? LIST_ADVICE
    return {
      check: "limits",
      severity: "warning",
      ...(server === undefined ? {} : { subject: server }),
      what: message,
      why,
      fix: fix(server ?? ""),
    }
  })
}

/** What the limits of clients mean for each kind of warning, and what helps. */
const LIMIT_ADVICE: readonly {
  readonly pattern: RegExp
  readonly why: string
  fix(server: string): string
}[] = [
  {
    pattern: /: (?:descriptions over|tools without a description)/,
    why: "a model chooses a tool by its description",
    fix: (server) => `write a description with \`svc mcp tools describe ${server} TOOL TEXT\``,
  },
  {
    pattern: /: names (?:over|with)/,
    why: "clients and model APIs refuse a request with such a name",
    fix: (server) =>
      `start svc with --max-tool-name 64, or shorten the name with \`svc mcp edit ${server} --rename NAME\``,
  },
  {
    pattern: / of their input schema/,
    why: "some model APIs refuse a request with such a tool",
    fix: (server) => `if yours refuses it, hide the tools with \`svc mcp tools disable ${server} TOOL\``,
  },
]

const LIST_ADVICE = {
  why: "many clients cut a long list of tools, and models choose less reliably from it",
  fix: () =>
    "list only the search tools with `svc serve --tools search`, offer fewer servers with `svc preset create`, or hide tools with `svc mcp tools disable`",
}

/** Finds secrets that every user of this machine can read in the list of processes. */
function checkArguments({ specs, context }: Installation): readonly Finding[] {
  const launched = specs.flatMap(({ name, launch, secrets }) =>
    launch.transport === "stdio"
      ? [{ name, args: launch.args, isSecret: (arg: string) => secrets.some((secret) => arg.includes(secret)) }]
      : [],
  )
  return [...launched, ...notifyCommands(context)].flatMap(({ name, args, isSecret }): readonly Finding[] => {
    const found = new Set(keysIn({ args }).map(({ path: [, index] }) => index))
    return args.flatMap((arg, index) =>
      found.has(index) || isSecret(arg) || /\$\{(?:keychain|file|cmd):/.test(arg)
        ? [
            {
              check: "arguments",
              severity: "warning",
              subject: name,
              what: `${name}: args[${index}] contains a secret`,
              why: "other users of this machine can see the arguments of programs in the list of processes",
              fix: "pass it in env, if the server also reads it there",
            } as const,
          ]
        : [],
    )
  })
}

/** Returns the commands of notifications as written; none if the file is no document, which another check reports. */
function notifyCommands(context: LocalConfiguration) {
  try {
    return keyHolders(context.document()).flatMap(({ name, path: [section], settings: { args } }) =>
      section === "notify" && Array.isArray(args)
        ? [{ name, args: args.map(String), isSecret: (arg: string) => referencesIn(arg).some(isSecretName) }]
        : [],
    )
  } catch (error) {
    if (error instanceof ConfigError) return []
    throw error
  }
}

function checkCommands({ specs, context }: Installation): readonly Finding[] {
  const { file } = context.paths
  return specs.flatMap((spec): readonly Finding[] => {
    const { name, launch } = spec
    if (launch.transport !== "stdio") return []
    const about = { check: "commands", severity: "error", subject: name, why: "the server cannot be started" } as const
    const { cwd } = launch
    if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
      return [
        {
          ...about,
          what: `${name}: working directory does not exist: ${cwd}`,
          fix: `create it, or correct cwd in ${file}`,
        },
      ]
    const what = commandProblem(spec)
    if (what === undefined) return []
    const [, provider] = /; install ([^,)]+)/.exec(what) ?? []
    const fix = provider === undefined ? `correct its command in ${file}` : `install ${provider}, which provides it`
    return [{ ...about, what, fix }]
  })
}

/** Finds a Node.js that is too old for packages from npm, which fail on it with syntax errors. */
async function checkNode({ specs, clock }: Installation): Promise<readonly Finding[]> {
  const found = specs.flatMap(({ launch }) =>
    launch.transport === "stdio" && /(?:^|[\\/])(?:npx|npm|node)(?:\.cmd|\.exe)?$/.test(launch.command) ? [launch] : [],
  )
  const [launch] = found
  const node = launch === undefined ? null : Bun.which("node", { PATH: launch.env.PATH ?? "" })
  if (launch === undefined || node === null) return []
  const child = Bun.spawn([node, "--version"], { env: { ...launch.env }, stdin: "ignore", stderr: "ignore" })
  const cancel = clock.after(CHECK_MS / 2, () => child.kill("SIGKILL"))
  const text = await new Response(child.stdout).text().finally(cancel)
  const major = Number(/^v(\d+)\./.exec(text)?.[1] ?? OLDEST_NODE)
  if (major >= OLDEST_NODE) return []
  return [
    {
      check: "node",
      severity: "warning",
      what: `${node} is Node.js ${text.trim()}`,
      why: `servers from npm need ${OLDEST_NODE} or newer; ${counted(found.length, "server")} run on it`,
      fix: "install a current Node.js",
    },
  ]
}

/** States as the predicate of a sentence about a server. */
const SAID_BY_STATE: Readonly<Partial<Record<ServerState, string>>> = {
  failed: "has failed",
  "crash-loop": "has crashed too often",
}

function checkServers({ live }: Installation): readonly Finding[] {
  return [...(live?.servers ?? []).flatMap(stateFindings), ...(live?.servers ?? []).flatMap(protocolFindings)]
}

const protocolFindings = ({ name, id, protocolErrors = [] }: ServerStatus): readonly Finding[] =>
  protocolErrors.map((error) => ({
    check: "protocol",
    severity: "warning",
    subject: name,
    what: `${id}: ${error}`,
    why: "svc ignores it, but other MCP clients may close the connection",
    fix: `see \`svc logs ${name}\`; update the server, or report this to its author`,
  }))

function stateFindings(one: ServerStatus): readonly Finding[] {
  const { name, id, state } = one
  const reason = [one.lastError, ...(one.issues ?? [])].filter((text) => text !== undefined).join("; ")
  const about = {
    check: "servers",
    subject: name,
    what: `${id} ${SAID_BY_STATE[state] ?? `is ${state}`}${reason === "" ? "" : `: ${reason}`}`,
  }
  switch (state) {
    case "sign-in needed":
    case "token needed":
    case "credentials refused":
      return [
        {
          ...about,
          what: `${id}: ${reason === "" ? state : reason}`,
          severity: "error",
          why: "svc has no access to it",
          fix: state === "sign-in needed" ? `svc auth login ${name}` : headerFix(name),
        },
      ]
    case "failed":
    case "crash-loop":
      return [
        {
          ...about,
          severity: "error",
          why: "svc does not offer its tools and does not restart it",
          fix: `see \`svc logs ${name}\` and correct the cause; a change to its entry, or \`svc mcp restart ${name}\`, starts it again`,
        },
      ]
    case "restarting":
    case "reconnecting":
      return [
        {
          ...about,
          severity: "error",
          why: "svc does not offer its tools until it is back; svc keeps trying",
          // The log of a remote server only repeats why it cannot be reached.
          fix: state === "reconnecting" ? urlFix(name) : `see \`svc logs ${name}\``,
        },
      ]
    case "degraded":
      return [{ ...about, severity: "warning", why: "a part of it does not work", fix: `see \`svc logs ${name}\`` }]
    default:
      if (one.changedTools === undefined) return []
      return [
        {
          ...about,
          severity: "warning",
          what: `${name} has changed tools: ${one.changedTools.join(", ")}`,
          why: "a changed description can mislead a model",
          fix: `look at \`svc mcp tools list ${name}\`, then \`svc mcp tools approve ${name}\``,
        },
      ]
  }
}

function checkSharedState({ live }: Installation): readonly Finding[] {
  const [what] = sharedStateNotes(live)
  if (what === undefined) return []
  return [
    {
      check: "shared-state",
      severity: "error",
      what,
      why: "clients cannot open sessions, and servers that run on one replica at a time have stopped",
      fix: "start or repair Redis; svc then connects again by itself (`svc cluster status` shows whether it has)",
    },
  ]
}

async function checkPort({ context, live }: Installation): Promise<readonly Finding[]> {
  if (live !== undefined) return []
  const port = namedPort() ?? DEFAULT_PORT
  try {
    Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } }).stop(true)
    return []
  } catch {
    const { describePortInUse } = await import("../../serve/port-in-use.ts")
    return [
      {
        check: "port",
        severity: "warning",
        what: await describePortInUse({ hostname: "127.0.0.1", port }, context.paths),
        why: "`svc serve` cannot listen there",
        fix: "stop the other program, or choose a free port with `svc serve --port 0`",
      },
    ]
  }
}

function checkVersion({ live }: Installation): readonly Finding[] {
  if (live?.version === undefined || live.version === version) return []
  return [
    {
      check: "version",
      severity: "warning",
      what: `the running svc is version ${live.version}, and this command is version ${version}`,
      why: "the running svc lacks the changes of this version",
      fix: "run `svc stop`, then start svc again",
    },
  ]
}
