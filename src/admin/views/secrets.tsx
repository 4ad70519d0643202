/** The secrets to which mcp.json refers. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useLoaded } from "../hooks.ts"
import { Button, Empty, Field, Head, StateMark, Table, WhenLoaded } from "../parts.tsx"
import { linkTo } from "../router.ts"
import { SecretField } from "../secret-field.tsx"

/** The secrets that mcp.json refers to, without their values. */
export function SecretsView() {
  const { api } = useApp()
  const configuration = useStateOf((state) => state.configuration)
  const loaded = useLoaded(async () => (await api.get<{ items: readonly Secret[] }>("/secrets")).items, [configuration])
  const [name, setName] = useState("")
  const [changed, setChanged] = useState<string>()
  return (
    <>
      <Head title="Secrets" />
      <p class="soft">
        mcp.json refers to secrets as <code>${"{NAME}"}</code>. Their values are in .env or in the system keychain, and
        this page never shows them.
      </p>
      <WhenLoaded loaded={loaded}>
        {(secrets) =>
          secrets.length === 0 ? (
            <Empty>No server refers to a secret yet.</Empty>
          ) : (
            <Table
              caption="Secrets"
              items={secrets}
              keyOf={({ reference }) => reference}
              columns={[
                { title: "Reference", kind: "name", draw: ({ reference }) => <code>{reference}</code> },
                {
                  title: "State",
                  draw: ({ state }) => <StateMark state={state} tone={state === "missing" ? "bad" : "good"} />,
                },
                {
                  title: "Used by",
                  draw: ({ servers }) =>
                    servers.length === 0 ? (
                      <span class="soft">no server</span>
                    ) : (
                      servers.map((server) => (
                        <a key={server} class="tag" href={linkTo(["servers", server])}>
                          {server}
                        </a>
                      ))
                    ),
                },
                {
                  title: "Controls",
                  draw: ({ reference }) => {
                    const variable = /^\$\{([A-Za-z_]\w*)\}$/.exec(reference)?.[1]
                    if (variable === undefined) return null
                    return changed === variable ? (
                      <SecretField name={variable} onDone={() => setChanged(undefined)} />
                    ) : (
                      <Button label={`Change ${variable}`} onClick={() => setChanged(variable)}>
                        Change
                      </Button>
                    )
                  },
                },
              ]}
            />
          )
        }
      </WhenLoaded>
      <section class="panel">
        <h2>Add a secret</h2>
        <Field label="Name" hint="Such as GITHUB_TOKEN. Letters, digits and underscores.">
          {(id, describedBy) => (
            <input
              id={id}
              spellcheck={false}
              aria-describedby={describedBy}
              value={name}
              onInput={({ currentTarget }) => setName(currentTarget.value.trim())}
            />
          )}
        </Field>
        {/^[A-Za-z_]\w*$/.test(name) && (
          <SecretField
            name={name}
            onDone={() => {
              setName("")
              loaded.reload()
            }}
          />
        )}
      </section>
    </>
  )
}

// ---

type Secret = { readonly reference: string; readonly state: string; readonly servers: readonly string[] }
