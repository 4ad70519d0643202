/** The last calls: who called what, with which arguments and which answer; to filter, export and repeat. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import {
  Button,
  countText,
  Dialog,
  Empty,
  Facts,
  Failure,
  Json,
  latencyText,
  Search,
  Table,
  WhenLoaded,
} from "../parts.tsx"
import { type CallResult, Result } from "../result.tsx"
import { linkTo } from "../router.ts"
import type { CallRecord } from "../types.ts"

/** The last calls of all servers, or of one; or that svc keeps none. */
export function LastCalls({ server }: { server: string }) {
  const isOff = useStateOf((state) => state.status?.activity === "off")
  if (!isOff) return <CallList server={server} />
  return (
    <>
      <h2>Last calls</h2>
      <Empty>
        svc keeps no calls, because it was started with <code>--activity off</code>.
      </Empty>
    </>
  )
}

// ---

function CallList({ server }: { server: string }) {
  const { api } = useApp()
  // The stream names each finished call; the list is read again when it has been quiet for a moment.
  const newest = useSettled(
    useStateOf((state) => state.calls[0]),
    500,
  )
  const [text, setText] = useState("")
  const [isFailed, setFailed] = useState(false)
  const [open, setOpen] = useState<CallRecord>()
  const q = useSettled(text.trim(), 250)
  const loaded = useLoaded(
    async () =>
      (await api.get<{ items: readonly CallRecord[] }>("/calls", { server, q, failed: isFailed || undefined })).items,
    [server, q, isFailed, newest],
  )
  const isFiltered = q !== "" || isFailed
  return (
    <>
      <div class="head">
        <h2>Last calls</h2>
        <div class="row">
          <Search label="Search calls" value={text} onInput={setText} />
          <Button pressed={isFailed} onClick={() => setFailed(!isFailed)}>
            Failed only
          </Button>
          <Button disabled={(loaded.data ?? []).length === 0} onClick={() => save(loaded.data ?? [])}>
            Export as JSON
          </Button>
        </div>
      </div>
      <WhenLoaded loaded={loaded}>
        {(calls) =>
          calls.length === 0 ? (
            <Empty>{isFiltered ? "No call matches." : "No calls yet. svc keeps the last 200, in memory."}</Empty>
          ) : (
            <Table
              caption="The last calls"
              items={calls}
              keyOf={({ id }) => String(id)}
              columns={[
                {
                  title: "Time",
                  draw: ({ time }) => <time dateTime={time}>{new Date(time).toLocaleTimeString("en-GB")}</time>,
                },
                {
                  title: "Tool",
                  kind: "name",
                  draw: (call) => (
                    <Button kind="quiet" label={`${call.server} / ${call.tool}`} onClick={() => setOpen(call)}>
                      <span class="crumb">{call.server} / </span>
                      {call.tool}
                    </Button>
                  ),
                },
                { title: "Client", kind: "wide", draw: ({ client, principal }) => client || principal },
                {
                  title: "Outcome",
                  draw: ({ outcome }) => (
                    <span class={outcome === "ok" ? "" : "error-text"}>{outcome.replaceAll("_", " ")}</span>
                  ),
                },
                { title: "Took", kind: "number", draw: ({ ms }) => latencyText(ms) },
              ]}
            />
          )
        }
      </WhenLoaded>
      {open !== undefined && <Call call={open} onClose={() => setOpen(undefined)} />}
    </>
  )
}

/** One call with its arguments and its answer. */
function Call({ call, onClose }: { call: CallRecord; onClose(): void }) {
  const { api } = useApp()
  const [again, setAgain] = useState<{ result: CallResult; ms: number; at: number }>()
  const [busy, run, problem] = useAction("here")
  const { server, tool, qualifiedName, client, principal, outcome, ms, time, whole, answer } = call
  const repeat = (name: string) =>
    run("repeat", async () => {
      const path = `/tools/${encodeURIComponent(name)}/call`
      const { result, ms: took } = await api.send<{ result: CallResult; ms: number }>("POST", path, {
        arguments: call.arguments,
      })
      setAgain((before) => ({ result, ms: took, at: (before?.at ?? 0) + 1 }))
      return undefined
    })
  return (
    <Dialog title={`${server} / ${tool}`} isWide={true} onClose={onClose}>
      <Facts
        rows={[
          ["Time", new Date(time).toLocaleString()],
          ["Client", client || "unnamed"],
          ["Identity", principal],
          ["Outcome", outcome.replaceAll("_", " ")],
          ["Took", latencyText(ms)],
          ["Waited", call.waited === 0 ? "not at all" : latencyText(call.waited)],
          ["At the server", latencyText(call.atServer)],
        ]}
      />
      {call.arguments === undefined ? (
        <p class="soft">
          svc did not keep the arguments and the answer: the call was made before anybody opened this page. With{" "}
          <code>--activity content</code>, svc keeps them from the start.
        </p>
      ) : (
        <>
          <h3>Arguments</h3>
          <Json value={call.arguments} />
          {!whole && (
            <p class="soft">
              Long values were shortened, or secrets left out, so this call cannot be repeated from here.
            </p>
          )}
          <h3>Answer</h3>
          {answer === undefined ? (
            <p class="soft">The answer was passed on as it arrived, and svc did not keep it.</p>
          ) : (
            <pre class="code">{prettyText(answer)}</pre>
          )}
        </>
      )}
      {problem !== undefined && <Failure text={problem} />}
      {again !== undefined && <Result key={again.at} result={again.result} ms={again.ms} />}
      <div class="actions">
        {qualifiedName !== undefined && (
          <a class="button" href={linkTo(["tools", qualifiedName])} onClick={onClose}>
            Show the tool
          </a>
        )}
        {qualifiedName !== undefined && whole && (
          <Button isBusy={busy !== undefined} onClick={() => void repeat(qualifiedName)}>
            Call it again
          </Button>
        )}
        <Button kind="primary" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  )
}

/** Returns a JSON text in lines; a text that was cut stays as it is. */
function prettyText(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return `${text} …`
  }
}

/** Gives the calls to the browser as a file. */
function save(calls: readonly CallRecord[]): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([JSON.stringify(calls, null, 2)], { type: "application/json" }))
  link.download = `svc-calls-${countText(calls.length, "call").replaceAll(/\W+/g, "-")}.json`
  link.click()
  URL.revokeObjectURL(link.href)
}
