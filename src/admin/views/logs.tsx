/** The logs of servers: the last lines, and new lines as they arrive. */
import { useEffect, useRef, useState } from "preact/hooks"
import { textOf } from "../api.ts"
import { useApp, useStateOf } from "../context.ts"
import { useSettled } from "../hooks.ts"
import { Button, Choice, Empty, Failure, Head, Search } from "../parts.tsx"
import { linkTo } from "../router.ts"
import type { LogLine } from "../types.ts"

/** The logs of all servers. */
export const LogsView = () => (
  <>
    <Head title="Logs" />
    <LogPane />
  </>
)

/** The log of one server, or of all. */
export function LogPane({ server }: { server?: string }) {
  const servers = useStateOf((state) => state.servers)
  const [chosen, setChosen] = useState(server ?? "")
  const [level, setLevel] = useState("debug")
  const [text, setText] = useState("")
  const [isFollowing, setFollowing] = useState(true)
  const q = useSettled(text, 250)
  const { lines, error } = useLog({ server: chosen, level, q })
  const isFiltered = text !== "" || level !== "debug" || chosen !== (server ?? "")
  const clear = () => {
    setText("")
    setLevel("debug")
    setChosen(server ?? "")
  }
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isFollowing && end.current !== null) end.current.scrollTop = end.current.scrollHeight
  }, [lines, isFollowing])
  return (
    <>
      <div class="row">
        <Search label="Search the log" value={text} onInput={setText} />
        {server === undefined && (
          <Choice
            label="Server"
            value={chosen}
            options={[["", "All servers"], ...servers.map(({ name }) => [name, name] as const)]}
            onChange={setChosen}
          />
        )}
        <Choice label="Level" value={level} options={LEVELS} onChange={setLevel} />
        <Button pressed={isFollowing} onClick={() => setFollowing(!isFollowing)}>
          Follow
        </Button>
      </div>
      {error !== undefined && <Failure text={error} />}
      {lines?.length === 0 && error === undefined && (
        <NoLines isFiltered={isFiltered} hasServers={servers.length > 0} onClear={clear} />
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls it */}
      <div class="log" ref={end} role="log" aria-label="Log" tabIndex={0}>
        {lines?.map(({ key, line }) => (
          <div key={key} class={`line ${TONES[line.level]}`}>
            <time dateTime={line.time} title={line.time}>
              {new Date(line.time).toLocaleTimeString("en-GB")}
            </time>
            <span class="level">{line.level}</span>
            {server === undefined && <span class="from">{line.server}</span>}
            <span class="text">{line.message}</span>
          </div>
        ))}
      </div>
    </>
  )
}

// ---

type NoLinesProps = { readonly isFiltered: boolean; readonly hasServers: boolean; onClear(): void }

/** Says why the log is empty, and what to do next. */
const NoLines = ({ isFiltered, hasServers, onClear }: NoLinesProps) => {
  if (!hasServers)
    return (
      <Empty>
        No server is configured yet, so there is no log. <a href={linkTo(["servers", "add"])}>Add a server</a>
      </Empty>
    )
  if (isFiltered)
    return (
      <Empty>
        No line matches. <Button onClick={onClear}>Show all lines</Button>
      </Empty>
    )
  return (
    <Empty>
      No line yet: svc keeps what servers print while it runs. <a href={linkTo(["servers"])}>Look at the servers</a>
    </Empty>
  )
}

const LEVELS = [
  ["debug", "All levels"],
  ["info", "info and above"],
  ["warn", "warn and above"],
  ["error", "error only"],
] as const
const TONES: Readonly<Record<LogLine["level"], string>> = { debug: "faint", info: "", warn: "notice", error: "bad" }
const KEPT_LINES = 1000
const RETRY_MS = 1500

type NumberedLine = { readonly key: number; readonly line: LogLine }

/** Reads the last lines, undefined until they are known, and follows new lines. A hidden page closes its stream (live.ts, 2). */
function useLog({ server, level, q }: { server: string; level: string; q: string }) {
  const { api } = useApp()
  const [lines, setLines] = useState<readonly NumberedLine[]>()
  const [error, setError] = useState<string>()
  const last = useRef(0)
  useEffect(() => {
    let close: (() => void) | undefined
    let waiting: ReturnType<typeof setTimeout> | undefined
    const numbered = (line: LogLine): NumberedLine => {
      last.current += 1
      return { key: last.current, line }
    }
    const query = { server, level, q }
    const stop = () => {
      clearTimeout(waiting)
      close?.()
      close = undefined
    }
    const open = () => {
      stop()
      if (document.hidden) return
      const early: LogLine[] = []
      let isRead = false
      const opened = api.follow("/logs/stream", query, {
        onopen: () =>
          api.get<{ items: readonly LogLine[] }>("/logs", { ...query, limit: KEPT_LINES }).then(
            ({ items }) => {
              if (close !== opened) return
              isRead = true
              setError(undefined)
              // A line that arrived during the read may be part of the answer too.
              const fresh = early.filter(
                (line) => !items.some((one) => one.time === line.time && one.message === line.message),
              )
              setLines([...items, ...fresh].map(numbered))
            },
            (problem) => close === opened && setError(textOf(problem)),
          ),
        onevent(_name, data) {
          const line = data as LogLine
          if (isRead) setLines((before = []) => [...before, numbered(line)].slice(-KEPT_LINES))
          else early.push(line)
        },
        onend() {
          waiting = setTimeout(open, RETRY_MS)
        },
      })
      close = opened
    }
    open()
    document.addEventListener("visibilitychange", open)
    return () => {
      stop()
      document.removeEventListener("visibilitychange", open)
    }
  }, [api, server, level, q])
  return { lines, error }
}
