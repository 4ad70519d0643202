/** The issues of the configuration, each with its location and remedy. */
import { useStateOf } from "../context.ts"
import { Empty, Head, StateMark, Table } from "../parts.tsx"
import { linkTo } from "../router.ts"
import type { Issue } from "../types.ts"

/** The list of issues. */
export function IssuesView() {
  const issues = useStateOf((state) => state.issues)
  const status = useStateOf((state) => state.status)
  const file = useStateOf((state) => state.file)
  const errors = issues.filter(({ severity }) => severity === "error").length
  return (
    <>
      <Head title="Issues" />
      <p class="soft">
        Issues in <code>{file}</code> and the files beside it.{" "}
        {errors > 0 && "If svc cannot read the file at all, it keeps the last valid configuration."}
      </p>
      {status?.warnings.map((warning) => (
        <div key={warning} class="note notice">
          <p>{warning}</p>
        </div>
      ))}
      {issues.length === 0 ? (
        <Empty>The configuration has no issues.</Empty>
      ) : (
        <Table
          caption="Issues"
          items={issues.map((issue, at) => ({ ...issue, at }))}
          keyOf={({ at }) => String(at)}
          columns={[
            {
              title: "Severity",
              draw: ({ severity }) => <StateMark state={severity} tone={severity === "error" ? "bad" : "notice"} />,
            },
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
                server === undefined ? <span class="soft">–</span> : <a href={linkTo(["servers", server])}>{server}</a>,
            },
          ]}
        />
      )}
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

/** Returns the location of an issue in the form that editors accept (`file:line:column`), and the path in the document. */
function placeOf({ file, line, column, path = [] }: Issue, main: string): string {
  const place = [file ?? main, line, line === undefined ? undefined : column].filter((part) => part !== undefined)
  return [place.join(":"), path.join(".")].filter((part) => part !== "").join("  ")
}
