/** The last calls: who called what, with which arguments and which answer; to filter, export and repeat. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded, useSettled } from "../hooks.ts"
import { isSchema } from "../json-schema.ts"
import {
  Button,
  Choice,
  countText,
  Dialog,
  dateText,
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
  const [which, setWhich] = useState("")
  const [client, setClient] = useState("")
  const [open, setOpen] = useState<CallRecord>()
  const q = useSettled(text.trim(), 250)
  const loaded = useLoaded(
    async () => (await api.get<{ items: readonly CallRecord[] }>("/calls", { server, q })).items,
    [server, q, newest],
  )
  const all = loaded.data ?? []
  const shown = all.filter(
    (call) =>
      (client === "" || clientOf(call) === client) &&
      (which !== "failed" || call.outcome !== "ok") &&
      (which !== "slow" || call.ms >= SLOW_MS),
  )
  const clients = new Set([...all.map(clientOf), ...(client === "" ? [] : [client])])
  const isFiltered = q !== "" || which !== "" || client !== ""
  return (
    <>
      <div class="head">
        <h2>Last calls</h2>
        <div class="row">
          <Search label="Search calls" value={text} onInput={setText} />
          <Choice
            label="Client"
            value={client}
            options={[["", "All clients"], ...[...clients].sort().map((name) => [name, name] as const)]}
            onChange={setClient}
          />
          <Choice label="Which calls" value={which} options={WHICH} onChange={setWhich} />
          <Button disabled={shown.length === 0} onClick={() => save(shown)}>
            Export as JSON
          </Button>
        </div>
      </div>
      <WhenLoaded loaded={loaded}>
        {() =>
          shown.length === 0 ? (
            <Empty>{isFiltered ? "No call matches." : "No calls yet. svc keeps the last 200, in memory."}</Empty>
          ) : (
            <Table
              caption="The last calls"
              items={shown}
              keyOf={({ id }) => String(id)}
              columns={[
                {
                  title: "Time",
                  sort: ({ id }) => id,
                  draw: ({ time }) => <time dateTime={time}>{new Date(time).toLocaleTimeString("en-GB")}</time>,
                },
                {
                  title: "Tool",
                  kind: "name",
                  sort: (call) => `${call.server} / ${call.tool}`,
                  draw: (call) => (
                    <Button kind="quiet" label={`${call.server} / ${call.tool}`} onClick={() => setOpen(call)}>
                      <span class="crumb">{call.server} / </span>
                      {call.tool}
                    </Button>
                  ),
                },
                { title: "Client", kind: "wide", sort: clientOf, draw: clientOf },
                {
                  title: "Outcome",
                  sort: ({ outcome }) => outcome,
                  draw: ({ outcome }) => (
                    <span class={outcome === "ok" ? "" : "error-text"}>{outcome.replaceAll("_", " ")}</span>
                  ),
                },
                { title: "Took", kind: "number", sort: ({ ms }) => ms, draw: ({ ms }) => latencyText(ms) },
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
          ["Time", dateText(time)],
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
          <Answer text={answer} ms={ms} />
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

/** The answer of a call: as after a call from this page if svc has kept all of it, else the text. */
function Answer({ text, ms }: { text: string | undefined; ms: number }) {
  if (text === undefined) return <p class="soft">The answer was passed on as it arrived, and svc did not keep it.</p>
  const message = parsed(text)
  if (isSchema(message) && isSchema(message.result)) return <Result title="Answer" result={message.result} ms={ms} />
  return (
    <>
      <h3>Answer</h3>
      {message === undefined ? <pre class="code">{text} …</pre> : <Json value={message} />}
    </>
  )
}

/** Parses a text; returns undefined if it was cut. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const clientOf = ({ client, principal }: CallRecord): string => client || principal
const SLOW_MS = 1000
const WHICH = [
  ["", "All calls"],
  ["failed", "Failed only"],
  ["slow", "Slower than 1 s"],
] as const

/** Gives the calls to the browser as a file. */
function save(calls: readonly CallRecord[]): void {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([JSON.stringify(calls, null, 2)], { type: "application/json" }))
  link.download = `svc-calls-${countText(calls.length, "call").replaceAll(/\W+/g, "-")}.json`
  link.click()
  URL.revokeObjectURL(link.href)
}
