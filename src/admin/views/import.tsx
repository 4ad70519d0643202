/** The servers in the files of clients on this machine, for an import. */
import { useApp } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Button, countText, Empty, Failure, Table, WhenLoaded } from "../parts.tsx"
import { goFromHere, linkTo } from "../router.ts"
import type { ImportAnswer } from "../types.ts"

/** What svc would import, and the button that imports exactly this. */
export function ImportPane() {
  const { api, live } = useApp()
  const loaded = useLoaded(() => api.get<ImportAnswer>("/import"), [])
  const [busy, run, problem] = useAction("here")
  const importAll = async (digest: string) => {
    const go = goFromHere()
    const isDone = await run("import", async () => {
      const { added } = await api.send<ImportAnswer>("POST", "/import", { digest })
      // The list of servers would still be empty, and show how to begin.
      await live.refresh()
      return `${countText(added.length, "server")} imported: ${added.join(", ")}. Next, connect your clients to svc.`
    })
    if (isDone) go(["servers"])
    else loaded.reload()
  }
  return (
    <WhenLoaded loaded={loaded}>
      {({ found, skipped, digest }) => {
        const fresh = found.filter((one) => one.problem === undefined && !one.same)
        return (
          <>
            {skipped.map((text) => (
              <div key={text} class="note notice">
                <p>Not read: {text}</p>
              </div>
            ))}
            {found.length === 0 ? (
              <Empty>
                svc found no server in the settings of clients on this machine.{" "}
                <a href={linkTo(["servers", "add"])}>Add one</a>, or <a href={linkTo(["registry"])}>find one</a>.
              </Empty>
            ) : (
              <section class="panel">
                <p>
                  svc found {countText(found.length, "server")} in your clients' settings. It would run{" "}
                  {countText(fresh.length, "new server")} with your user's permissions, and store their keys in .env.
                </p>
                <Table
                  caption="Servers in the settings of clients"
                  items={found.map((one, at) => ({ ...one, at }))}
                  keyOf={({ at }) => String(at)}
                  columns={[
                    {
                      title: "Server",
                      kind: "name",
                      draw: ({ name, application, file }) => (
                        <>
                          {name}
                          <span class="sub">{application ?? file}</span>
                        </>
                      ),
                    },
                    { title: "Runs", draw: ({ command }) => <code>{command}</code> },
                    {
                      title: "Note",
                      kind: "wide",
                      draw: ({ notes, problem: why, same }) => {
                        if (why !== undefined) return <span class="soft">not imported: {why}</span>
                        return same ? <span class="soft">svc has it</span> : notes.join("; ")
                      },
                    },
                  ]}
                />
                {problem !== undefined && <Failure text={problem} />}
                <div class="row">
                  <Button
                    kind="primary"
                    isBusy={busy !== undefined}
                    disabled={fresh.length === 0}
                    onClick={() => void importAll(digest)}
                  >
                    Import {countText(fresh.length, "server")}
                  </Button>
                </div>
              </section>
            )}
          </>
        )
      }}
    </WhenLoaded>
  )
}
