/** The servers in the files of clients on this machine, for an import. */
import { useState } from "preact/hooks"
import type { Api } from "../api.ts"
import { useApp } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Breakable, Button, countText, Empty, Failure, Selectable, Table, WhenLoaded } from "../parts.tsx"
import { goFromHere, linkTo } from "../router.ts"
import type { Client, ImportAnswer, Status } from "../types.ts"

/** What svc would import, with a box for each server, and the button that imports exactly the ticked ones. */
export function ImportPane() {
  const { api, live } = useApp()
  const [projects, setProjects] = useState(false)
  const [chosen, setChosen] = useState<ReadonlySet<string>>()
  const loaded = useLoaded(() => api.get<ImportAnswer>("/import", { projects }), [projects])
  const [busy, run, problem] = useAction("here")
  const importChosen = async (digest: string, only: readonly string[]) => {
    const go = goFromHere()
    let isUsed = true
    const isDone = await run("import", async () => {
      const { added } = await api.send<ImportAnswer>("POST", "/import", { digest, projects, only })
      // The list of servers would still be empty, and show how to begin.
      await live.refresh()
      isUsed = await hasClient(api)
      return `${countText(added.length, "server")} imported: ${added.join(", ")}.${isUsed ? "" : " Next, connect a client."}`
    })
    if (isDone) go([isUsed ? "servers" : "clients"])
    else loaded.reload()
  }
  return (
    <WhenLoaded loaded={loaded}>
      {({ found, skipped, digest }) => {
        const fresh = found.filter(isNew)
        const ticked = chosen ?? new Set(fresh.map(({ name }) => name))
        const only = fresh.map(({ name }) => name).filter((name) => ticked.has(name))
        const byClient = Object.entries(Object.groupBy(found, ({ title, file }) => title ?? file))
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
                  svc found {countText(found.length, "server")} in your clients' settings. It would run the ticked
                  servers with your user's permissions, and store their keys in .env.
                </p>
                <label class="check">
                  <input
                    type="checkbox"
                    checked={projects}
                    onChange={({ currentTarget }) => {
                      setProjects(currentTarget.checked)
                      setChosen(undefined)
                    }}
                  />
                  Also import the servers of projects; svc then offers them in every project
                </label>
                {byClient.map(([client, servers = []]) => (
                  <Table
                    key={client}
                    caption={`Servers of ${client}`}
                    items={servers.map((one, at) => ({ ...one, at }))}
                    keyOf={({ at }) => String(at)}
                    columns={[
                      {
                        title: client,
                        kind: "name",
                        draw: (one) =>
                          isNew(one) ? (
                            <Selectable label={`Import ${one.name}`} chosen={ticked} id={one.name} onChoose={setChosen}>
                              {one.name}
                            </Selectable>
                          ) : (
                            one.name
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
                ))}
                {problem !== undefined && <Failure text={problem} />}
                <div class="row">
                  <Button
                    kind="primary"
                    isBusy={busy !== undefined || loaded.isLoading}
                    disabled={only.length === 0}
                    onClick={() => void importChosen(digest, only)}
                  >
                    Import {countText(only.length, "server")}
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

type Found = ImportAnswer["found"][number]

/** Whether a server can be imported. Its name is then unique among these. */
const isNew = ({ problem, same }: Found): boolean => problem === undefined && !same

/** Whether a client is connected to svc, by its settings or now; true if svc cannot tell. */
async function hasClient(api: Api): Promise<boolean> {
  try {
    const { sessions } = await api.get<Status>("/status")
    if (sessions > 0) return true
    const { items } = await api.get<{ items: readonly Client[] }>("/clients")
    return items.some(({ state }) => state === "connected")
  } catch {
    return true
  }
}

/** Returns what happens to a server that was found, unless it is only imported. */
function noteOf({ notes, problem, same, projectFolder }: Found, projects: boolean): string {
  if (problem !== undefined && projectFolder !== undefined && !projects)
    return `not imported: it belongs to the project ${projectFolder}`
  if (problem !== undefined) return `not imported: ${problem}`
  return same ? "not imported: it is already in svc, or above in this list" : notes.join("; ")
}
