/** What is wrong with svc and its servers, each with its place and remedy, and a button where svc can mend it. */
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, countText, Empty, Failure, Head, StateMark, Table } from "../parts.tsx"
import { linkTo } from "../router.ts"
import { MissingSecrets } from "../secret-field.tsx"
import type { Finding, Issue } from "../types.ts"

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
                  </>
                ),
              },
              {
                title: "Server",
                kind: "wide",
                draw: ({ server }) =>
                  server === undefined ? (
                    <span class="soft">–</span>
                  ) : (
                    <a href={linkTo(["servers", server])}>{server}</a>
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
  const loaded = useLoaded(() => api.get<Diagnosis>("/doctor"), [configuration])
  const [busy, run] = useAction()
  const repair = () =>
    run("repair", async () => {
      const { findings } = await api.send<{ findings: readonly { fixed?: boolean }[] }>("POST", "/doctor")
      loaded.reload()
      return `${countText(findings.filter(({ fixed }) => fixed === true).length, "problem")} repaired`
    })
  const restart = (name: string) =>
    run(name, async () => {
      await api.send("POST", `/servers/${encodeURIComponent(name)}/restart`)
      loaded.reload()
      return `${name} was restarted`
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
              draw: ({ what, why, fix }) => (
                <>
                  <span class="prose-text">{what}</span>
                  <span class="sub">{why}</span>
                  <span class="sub">To fix it: {fix}</span>
                </>
              ),
            },
            {
              title: "Controls",
              draw: ({ check, subject = "" }) =>
                check === "clients" ? (
                  <a class="button" href={linkTo(["clients"])}>
                    Clients
                  </a>
                ) : (
                  servers.some(({ name }) => name === subject) && (
                    <div class="row">
                      <a class="button" href={linkTo(["servers", subject])} aria-label={`Show ${subject}`}>
                        Show
                      </a>
                      <Button
                        label={`Restart ${subject}`}
                        isBusy={busy === subject}
                        onClick={() => void restart(subject)}
                      >
                        Restart
                      </Button>
                    </div>
                  )
                ),
            },
          ]}
        />
      )}
    </section>
  )
}

/** Returns the location of an issue in the form that editors accept (`file:line:column`), and the path in the document. */
function placeOf({ file, line, column, path = [] }: Issue, main: string): string {
  const place = [file ?? main, line, line === undefined ? undefined : column].filter((part) => part !== undefined)
  return [place.join(":"), path.join(".")].filter((part) => part !== "").join("  ")
}
