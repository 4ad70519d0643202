/** The first view of a svc without servers: the ways to begin. */
import { useApp, useStateOf } from "../context.ts"
import { useAction } from "../hooks.ts"
import { Button, Failure, Head } from "../parts.tsx"
import { goFromHere, linkTo, type Route } from "../router.ts"
import { ImportPane } from "./import.tsx"
import { addServer } from "./paste.tsx"
import { ServersView } from "./servers.tsx"

/** The servers, or what to do first if there are none. */
export function ServersOrWelcome({ route }: { route: Route }) {
  const isEmpty = useStateOf((state) => state.servers.length === 0)
  if (route.path[1] === "import")
    return (
      <>
        <Head
          title={
            <>
              <a class="crumb" href={linkTo(["servers"])}>
                Servers /
              </a>{" "}
              Import from my clients
            </>
          }
        />
        <ImportPane />
      </>
    )
  return isEmpty && route.path[1] === undefined ? <Welcome /> : <ServersView route={route} />
}

// ---

const Welcome = () => {
  const { api, live } = useApp()
  const demo = useStateOf((state) => state.status?.demo ?? [])
  const [busy, run, problem] = useAction("here")
  const addDemo = async () => {
    const [command, ...args] = demo
    const go = goFromHere()
    const isAdded = await run("demo", () =>
      addServer({ api, live }, "demo", { command, args }, { moveKeys: false, template: false }),
    )
    if (isAdded) go(["servers", "demo", "tools"])
  }
  return (
    <>
      <Head title="Welcome to svc" />
      <p class="soft">
        svc runs your MCP servers in one place and offers their tools to all of your clients. First add servers, then
        connect a client.
      </p>
      <div class="cards">
        <article class="panel">
          <h2>
            <a href={linkTo(["servers", "import"])}>Import from my clients</a>
          </h2>
          <p>Bring in the servers that Claude, Cursor, VS Code and others on this machine already use.</p>
        </article>
        <article class="panel">
          <h2>
            <a href={linkTo(["servers", "add"])}>Add a server</a>
          </h2>
          <p>Paste JSON, a command, an address or the name of a package.</p>
        </article>
        <article class="panel">
          <h2>
            <a href={linkTo(["registry"])}>Find a server</a>
          </h2>
          <p>Search the registry, and see what would run before you install it.</p>
        </article>
        <article class="panel">
          <h2>
            <a href={linkTo(["clients"])}>Connect a client</a>
          </h2>
          <p>See which clients are on this machine, and let them use svc with one click.</p>
        </article>
        <article class="panel">
          <h2>Look around</h2>
          <p>Add a small demo server that comes with svc, try its tools, and remove it when you are done.</p>
          <Button isBusy={busy !== undefined} disabled={demo.length === 0} onClick={() => void addDemo()}>
            Add the demo server
          </Button>
          {problem !== undefined && <Failure text={problem} />}
        </article>
      </div>
    </>
  )
}
