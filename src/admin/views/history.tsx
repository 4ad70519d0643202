/** The backups of mcp.json, with which changes are undone. */
import { useState } from "preact/hooks"
import { ChangeDialog } from "../change-dialog.tsx"
import { useApp, useStateOf } from "../context.ts"
import { useLoaded } from "../hooks.ts"
import { Button, dateText, Empty, Head, Table, WhenLoaded } from "../parts.tsx"

/** The backups of mcp.json. */
export function HistoryView() {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const file = useStateOf((state) => state.file)
  const [open, setOpen] = useState<{ readonly name: string; readonly isLast: boolean }>()
  const loaded = useLoaded(() => api.get<Backups>("/backups"), [configuration])
  return (
    <>
      <Head title="History" />
      <p class="soft">
        svc keeps a backup of <code>{file}</code> before each change. Undo takes back the last change; secrets, presets
        and the settings of clients are not part of it.
      </p>
      <WhenLoaded loaded={loaded}>
        {({ items, changes }) =>
          items.length === 0 ? (
            <Empty>svc has not changed the file yet.</Empty>
          ) : (
            <Table
              caption="Backups"
              items={items.map((name, at) => ({ name, at }))}
              keyOf={({ name }) => name}
              columns={[
                {
                  title: "What changed",
                  kind: "name",
                  draw: ({ name }) => (
                    <>
                      <span class="prose-text">{changes[name] || "nothing"}</span>
                      <time class="sub" dateTime={timeOf(name)}>
                        {dateText(timeOf(name))}
                      </time>
                    </>
                  ),
                },
                {
                  title: "Controls",
                  draw: ({ name, at }) => (
                    <Button
                      kind={at === 0 ? "primary" : "plain"}
                      label={at === 0 ? "Undo the last change" : `Go back before this: ${dateText(timeOf(name))}`}
                      onClick={() => setOpen({ name, isLast: at === 0 })}
                    >
                      {at === 0 ? "Undo the last change" : "Go back before this"}
                    </Button>
                  ),
                },
              ]}
            />
          )
        }
      </WhenLoaded>
      {open !== undefined && (
        <ChangeDialog
          title={open.isLast ? "Undo the last change?" : "Go back to this state of mcp.json?"}
          action={open.isLast ? "Undo" : "Go back"}
          path={`/backups/${encodeURIComponent(open.name)}/restore`}
          done="The earlier content of mcp.json was restored"
          onClose={() => setOpen(undefined)}
          onDone={loaded.reload}
        />
      )}
    </>
  )
}

// ---

/** The names of the backups, newest first, and what has changed after each. */
type Backups = { readonly items: readonly string[]; readonly changes: Readonly<Record<string, string>> }

/** Returns the time in the name of a backup, ISO 8601. */
const timeOf = (name: string): string => {
  const [, day, hour, minute, rest] = /(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-([\d.]+Z)/.exec(name) ?? []
  return day === undefined ? name : `${day}T${hour}:${minute}:${rest}`
}
