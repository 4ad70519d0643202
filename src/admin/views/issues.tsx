/** What is wrong with svc and its servers, each with its place and remedy, and a button where svc can mend it. */
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, countText, Empty, Failure, Head, StateMark, Table } from "../parts.tsx"
import { linkTo } from "../router.ts"
import { MissingSecrets } from "../secret-field.tsx"
import type { Finding, Issue, Server, ServerState } from "../types.ts"
import { AuthorizeButton, REMEDIES, ServerControls } from "./server.tsx"

/** The issues of the configuration, and what `svc doctor` finds. */
export function IssuesView() {
  const issues = useStateOf((state) => state.issues)
  const file = useStateOf((state) => state.file)
  const errors = issues.filter(({ severity }) => severity === "error").length
  return (
    <>
      <Head title="Issues" />
      <MissingSecrets />
      {issues.length > 0 && (
        <>
          <h2>Configuration</h2>
          <p class="soft">
            Issues in <code>{file}</code> and the files beside it.{" "}
            {errors > 0 && "If svc cannot read the file at all, it keeps the last valid configuration."}
          </p>
          <Table
            caption="Issues of the configuration"
            items={issues.map((issue, at) => ({ ...issue, at }))}
            keyOf={({ at }) => String(at)}
            columns={[
              { title: "Severity", draw: ({ severity }) => <Severity severity={severity} /> },
              {
                title: "What is wrong, and what to do",
                kind: "name",
                draw: (issue) => (
                  <>
                    <span class="prose-text">{issue.message}</span>
                    <code class="sub">{placeOf(issue, file)}</code>
                    <div class="row remedies">
                      <Links links={linksOfIssue(issue, file)} about={issue.server} />
                    </div>
                  </>
                ),
              },
            ]}
          />
        </>
      )}
      <Checks />
    </>
  )
}

/** The number of issues for the navigation. */
export function IssueCount() {
  const issues = useStateOf((state) => state.issues)
  if (issues.length === 0) return null
  const isBad = issues.some(({ severity }) => severity === "error")
  return <span class={`count ${isBad ? "bad" : "notice"}`}>{issues.length}</span>
}

// ---

const NONE: readonly string[] = []

const Severity = ({ severity }: Pick<Issue, "severity">) => (
  <StateMark state={severity} tone={severity === "error" ? "bad" : "notice"} />
)

type Diagnosis = { readonly checks: readonly string[]; readonly findings: readonly Finding[] }

/** The findings of `svc doctor`, which asks servers and the system. */
function Checks() {
  const { api } = useApp()
  const warnings = useStateOf((state) => state.status?.warnings ?? NONE)
  const configuration = useStateOf((state) => state.configuration)
  const servers = useStateOf((state) => state.servers)
  const file = useStateOf((state) => state.file)
  const loaded = useLoaded(() => api.get<Diagnosis>("/doctor"), [configuration])
  const [busy, run] = useAction()
  const repair = () =>
    run("repair", async () => {
      const { findings } = await api.send<{ findings: readonly { fixed?: boolean }[] }>("POST", "/doctor")
      loaded.reload()
      return `${countText(findings.filter(({ fixed }) => fixed === true).length, "problem")} repaired`
    })
  const { checks = [], findings: all = [] } = loaded.data ?? {}
  // The configuration's own issues are above.
  const findings = all.filter(({ check }) => check !== "configuration" && check !== "variables")
  const fixable = findings.filter((one) => one.fixable).length
  return (
    <section aria-busy={loaded.isLoading}>
      <div class="head">
        <h2>Checks</h2>
        <div class="row">
          {fixable > 0 && (
            <Button kind="primary" isBusy={busy === "repair"} onClick={() => void repair()}>
              Repair {countText(fixable, "problem")}
            </Button>
          )}
          <Button isBusy={loaded.isLoading} onClick={loaded.reload}>
            Check again
          </Button>
        </div>
      </div>
      {loaded.error !== undefined && <Failure text={loaded.error} retry={loaded.reload} />}
      {loaded.data === undefined && loaded.error === undefined && (
        <p class="empty" role="status">
          Checking servers, clients, files and the network …
        </p>
      )}
      {loaded.data !== undefined && findings.length === 0 && <Empty>No problems found ({checks.length} checks).</Empty>}
      {/* Most of them are findings too, which know more. */}
      {!(loaded.data === undefined && loaded.isLoading) &&
        warnings
          .filter((warning) => !findings.some(({ what }) => what === warning))
          .map((warning) => (
            <div key={warning} class="note notice">
              <p>{warning}</p>
            </div>
          ))}
      {findings.length > 0 && (
        <Table
          caption="Findings"
          items={findings.map((finding, at) => ({ ...finding, at }))}
          keyOf={({ at }) => String(at)}
          columns={[
            { title: "Severity", draw: ({ severity }) => <Severity severity={severity} /> },
            {
              title: "What is wrong, and what to do",
              kind: "name",
              draw: (finding) => (
                <>
                  <span class="prose-text">{finding.what}</span>
                  <span class="sub">{finding.why}</span>
                  <span class="sub">{adviceOf(finding, servers, file)}</span>
                  <div class="row remedies">
                    <Links links={linksOf(finding, servers)} about={finding.subject} />
                    <RunControls finding={finding} onDone={loaded.reload} />
                  </div>
                </>
              ),
            },
          ]}
        />
      )}
    </section>
  )
}

/** A link to the view in which a person resolves a problem: its text and its route. */
type Link = readonly [text: string, path: readonly string[], query?: Readonly<Record<string, string>>]

const Links = ({ links, about }: { links: readonly Link[]; about: string | undefined }) => (
  <>
    {links.map(([text, path, query]) => (
      <a
        key={text}
        class="button"
        href={linkTo(path, query)}
        aria-label={about === undefined ? undefined : `${text}: ${about}`}
      >
        {text}
      </a>
    ))}
  </>
)

/** Returns where a person resolves an issue of a file; nowhere if only an editor can. */
function linksOfIssue({ server, severity, file = "" }: Issue, main: string): readonly Link[] {
  if (server !== undefined) return [["Settings", ["servers", server, "settings"]]]
  if (/[\\/]presets\.json$/.test(file)) return [["Presets", ["presets"]]]
  return severity === "error" && (file === "" || file === main) ? [["Undo a change", ["history"]]] : []
}

const serverOf = ({ subject }: Finding, servers: readonly Server[]): Server | undefined =>
  servers.find(({ name }) => name === subject)

/** Whether a finding is about tools that have changed, rather than about the state of their server. */
const isChange = ({ check, severity }: Finding, { instances }: Server): boolean =>
  check === "servers" && severity === "warning" && instances.some(({ changedTools = [] }) => changedTools.length > 0)

/** Returns where a person resolves a finding. */
function linksOf(finding: Finding, servers: readonly Server[]): readonly Link[] {
  const { check, subject = "", fix } = finding
  if (check === "clients") return [["Connect the client", ["clients"], { client: subject }]]
  const server = serverOf(finding, servers)
  if (server === undefined)
    return check === "limits"
      ? [
          ["Presets", ["presets"]],
          ["Tools", ["tools"]],
        ]
      : []
  const { name, state } = server
  const settings: Link = ["Settings", ["servers", name, "settings"]]
  const log: Link = ["Log", ["servers", name, "log"]]
  switch (check) {
    case "limits":
      return hasCommand(fix) ? [["Tools", ["servers", name, "tools"]]] : [["Show", ["servers", name]]]
    case "protocol":
      return [log]
    case "servers":
      if (isChange(finding, server)) return [["Compare and approve", ["approvals"]]]
      if (state === "sign-in needed") return []
      return state === "token needed" || state === "credentials refused" ? [settings] : [log, settings]
    default:
      return [settings]
  }
}

/** The buttons that start a server again, sign svc in to it, or turn it off. */
function RunControls({ finding, onDone }: { finding: Finding; onDone(): void }) {
  const server = useStateOf((state) => serverOf(finding, state.servers))
  if (server === undefined || !RUN_CHECKS.has(finding.check) || isChange(finding, server)) return null
  return (
    <>
      {server.state === "sign-in needed" && <AuthorizeButton name={server.name} />}
      <ServerControls server={server} onDone={onDone} />
    </>
  )
}

/** The checks whose findings mean that a server does not run. */
const RUN_CHECKS: ReadonlySet<string> = new Set(["servers", "commands", "remotes"])

/** Whether a remedy is a command for a terminal. */
const hasCommand = (fix: string): boolean => /(?:^|`)(?:svc|chmod) /.test(fix)

/** Returns what to do about a finding on this page; the words of `svc doctor` if they name no command. */
function adviceOf(finding: Finding, servers: readonly Server[], file: string): string {
  const { check, fix, fixable, what } = finding
  const toFix = (text: string) => `To fix it: ${text}`
  if (fixable) return toFix("use Repair, above.")
  const server = serverOf(finding, servers)
  if (!hasCommand(fix)) return toFix(server === undefined ? fix : fix.replace(` in ${file}`, " in Settings"))
  switch (check) {
    case "clients":
      return toFix("connect the client with the button below; svc shows the change to its settings before it makes it.")
    case "protocol":
      return toFix("look at its log; update the server, or report this to its author.")
    case "remotes":
      return toFix("correct its address or its headers in Settings.")
    case "limits":
      if (server === undefined) return toFix("make a preset with the tools that you need, or hide the others.")
      if (/ names (?:over|with)/.test(what))
        return toFix("hide these tools, or let svc shorten their names (svc serve --max-tool-name 64).")
      return toFix(
        / of their input schema/.test(what)
          ? "hide these tools if your model API refuses them."
          : "write a short description for each of these tools, or hide them.",
      )
    case "servers":
      if (server !== undefined && isChange(finding, server))
        return toFix("compare the old text with the new one, then approve or hide the tools.")
      return REMEDIES[server?.state as ServerState] ?? "Find the cause in the log, and correct it."
    default:
      return toFix(fix)
  }
}

/** Returns the location of an issue in the form that editors accept (`file:line:column`), and the path in the document. */
function placeOf({ file, line, column, path = [] }: Issue, main: string): string {
  const place = [file ?? main, line, line === undefined ? undefined : column].filter((part) => part !== undefined)
  return [place.join(":"), path.join(".")].filter((part) => part !== "").join("  ")
}
