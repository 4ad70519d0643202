/** Templates, with the instances that svc has rendered for projects and clients. */
import { useStateOf } from "../context.ts"
import { Ago, Empty, Head, numberText, StateMark, Table, Tags } from "../parts.tsx"
import { linkTo } from "../router.ts"

/** The templates. */
export function TemplatesView() {
  const servers = useStateOf((state) => state.servers)
  const templates = servers.filter(({ template }) => template)
  return (
    <>
      <Head title="Templates" />
      {templates.length === 0 && (
        <Empty>No template is configured. A template is a server that svc renders for each project and client.</Empty>
      )}
      {templates.map(({ name, state, tags, instances }) => (
        <section key={name} class="panel">
          <div class="head">
            <h2>
              <a href={linkTo(["servers", name])}>{name}</a> <Tags tags={tags} />
            </h2>
            <StateMark state={state} />
          </div>
          {instances.length === 0 ? (
            <p class="soft">No instance runs: no client with a project is connected.</p>
          ) : (
            <Table
              caption={`Instances of ${name}`}
              items={instances}
              keyOf={({ id }) => id}
              columns={[
                { title: "Instance", kind: "name", draw: ({ id }) => <code>{id}</code> },
                {
                  title: "State",
                  draw: ({ state: one, lastError }) => (
                    <>
                      <StateMark state={one} />
                      {lastError !== undefined && <span class="sub error-text">{lastError}</span>}
                    </>
                  ),
                },
                { title: "Process", kind: "wide number", draw: ({ pid }) => pid ?? "–" },
                { title: "Since", kind: "wide", draw: ({ since }) => (since === undefined ? "–" : <Ago at={since} />) },
                {
                  title: "Tools",
                  kind: "number",
                  draw: ({ tools }) => (tools === undefined ? "–" : numberText(tools)),
                },
              ]}
            />
          )}
        </section>
      ))}
    </>
  )
}
