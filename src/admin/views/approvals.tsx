/** Tools with a definition that has changed since its approval, with a diff for each. */
import { useApp, useStateOf } from "../context.ts"
import { DiffLines } from "../diff.tsx"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, Empty, Head, Json, StateMark, WhenLoaded } from "../parts.tsx"
import { linkTo } from "../router.ts"
import type { Approval } from "../types.ts"
import { askForZeroTools } from "../zero-tools.ts"

/** The changed tools, each with its diff. */
export function ApprovalsView() {
  const { api } = useApp()
  const catalog = useStateOf((state) => state.catalog)
  const servers = useStateOf((state) => state.servers)
  const loaded = useLoaded(() => api.all<Approval>("/approvals"), [catalog, servers])
  return (
    <>
      <Head title="Approvals" />
      <p class="soft">
        A server can change the definitions of its tools at any time, and models read them as instructions. svc compares
        each definition with the first one it saw, or the last one you approved. With{" "}
        <code>"toolPinning": "strict"</code>, clients do not see a changed tool until you approve it.
      </p>
      <WhenLoaded loaded={loaded}>
        {(approvals) =>
          approvals.length === 0 ? (
            <Empty>No tool has changed.</Empty>
          ) : (
            approvals.map((approval) => (
              <Change
                key={`${approval.instance ?? approval.server} ${approval.tool} ${approval.hash}`}
                approval={approval}
                onDone={loaded.reload}
              />
            ))
          )
        }
      </WhenLoaded>
    </>
  )
}

/** The number of changed tools for the navigation. */
export function ApprovalCount() {
  const servers = useStateOf((state) => state.servers)
  const count = new Set(
    servers.flatMap(({ name, instances }) =>
      instances.flatMap(({ changedTools = [] }) => changedTools.map((tool) => `${name} ${tool}`)),
    ),
  ).size
  return count === 0 ? null : <span class="count notice">{count}</span>
}

// ---

function Change({ approval, onDone }: { approval: Approval; onDone(): void }) {
  const { api, ui } = useApp()
  const [busy, run] = useAction()
  const { server, instance, tool, held, suspicious, hash, before, definition, diff } = approval
  const approve = () =>
    run("approve", async () => {
      await api.send("POST", `/servers/${encodeURIComponent(server)}/approve`, { tool, hash })
      onDone()
      return `${tool} of ${server} was approved`
    })
  const hide = () =>
    run("hide", async () => {
      const changes = [{ server, tool, disabled: true }]
      const isDone = await askForZeroTools(ui, (confirmZeroTools) =>
        api.send("PATCH", "/tools", { changes, confirmZeroTools }),
      )
      return isDone ? `${tool} of ${server} is hidden from clients` : undefined
    })
  return (
    <section class="panel" aria-label={`${tool} of ${server}`}>
      <div class="head">
        <h2>
          <a class="crumb" href={linkTo(["servers", server])}>
            {instance ?? server}
          </a>{" "}
          / {tool}
        </h2>
        <div class="row">
          <StateMark
            state={held ? "held until it is approved" : "clients see the new definition"}
            tone={held ? "good" : "notice"}
          />
          {suspicious && <StateMark state="invisible characters" tone="bad" />}
        </div>
      </div>
      {before === undefined && <p class="soft">svc has not stored the previous text, so it shows all lines as new.</p>}
      <DiffLines lines={diff} />
      <details>
        <summary>The full definition now</summary>
        <Json value={definition} />
      </details>
      <div class="actions">
        <Button isBusy={busy === "hide"} label={`Hide the tool ${tool} of ${server}`} onClick={() => void hide()}>
          Hide the tool
        </Button>
        <Button
          kind="primary"
          isBusy={busy === "approve"}
          label={`Approve ${tool} of ${server}`}
          onClick={() => void approve()}
        >
          Approve
        </Button>
      </div>
    </section>
  )
}
