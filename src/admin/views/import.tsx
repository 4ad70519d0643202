/** The servers in the files of clients on this machine, for an import. */
import { useState } from "preact/hooks"
import { useApp } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Breakable, Button, countText, Empty, Failure, Table, WhenLoaded } from "../parts.tsx"
import { goFromHere, linkTo } from "../router.ts"
import type { ImportAnswer } from "../types.ts"

/** What svc would import, and the button that imports exactly this. */
export function ImportPane() {
  const { api, live } = useApp()
  const [projects, setProjects] = useState(false)
  const loaded = useLoaded(() => api.get<ImportAnswer>("/import", { projects }), [projects])
  const [busy, run, problem] = useAction("here")
  const importAll = async (digest: string) => {
    const go = goFromHere()
    const isDone = await run("import", async () => {
      const { added } = await api.send<ImportAnswer>("POST", "/import", { digest, projects })
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
                <label class="check">
                  <input
                    type="checkbox"
                    checked={projects}
                    onChange={({ currentTarget }) => setProjects(currentTarget.checked)}
                  />
                  Also import the servers of projects; svc then offers them in every project
                </label>
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
                    {
                      title: "Runs",
                      draw: (one) => (
                        <>
                          <code>
                            <Breakable text={one.command} />
                          </code>
                          <span class="sub">{noteOf(one, projects)}</span>
                        </>
                      ),
                    },
                  ]}
                />
                {problem !== undefined && <Failure text={problem} />}
                <div class="row">
                  <Button
                    kind="primary"
                    isBusy={busy !== undefined || loaded.isLoading}
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

// ---

/** Returns what happens to a server that was found, unless it is only imported. */
function noteOf({ notes, problem, same, projectFolder }: ImportAnswer["found"][number], projects: boolean): string {
  if (problem !== undefined && projectFolder !== undefined && !projects)
    return `not imported: it belongs to the project ${projectFolder}`
  if (problem !== undefined) return `not imported: ${problem}`
  return same ? "not imported: it is already in svc, or above in this list" : notes.join("; ")
}
