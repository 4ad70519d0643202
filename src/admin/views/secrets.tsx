/** The secrets to which mcp.json refers. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "../context.ts"
import { useAction, useLoaded } from "../hooks.ts"
import { Breakable, Button, Empty, Field, Head, StateMark, Table, WhenLoaded } from "../parts.tsx"
import { linkTo } from "../router.ts"
import { MissingSecrets, SecretField, type StoredSecret } from "../secret-field.tsx"

/** The secrets that mcp.json refers to, without their values. */
export function SecretsView() {
  const { api, ui } = useApp()
  const [busy, run] = useAction()
  const configuration = useStateOf((state) => state.configuration)
  const loaded = useLoaded(async () => (await api.get<{ items: readonly Secret[] }>("/secrets")).items, [configuration])
  const [name, setName] = useState("")
  const [changed, setChanged] = useState<string>()
  const remove = async ({ reference, servers }: Secret, { name: stored, place }: StoredSecret) => {
    const isUsed = servers.length > 0
    const isAgreed = await ui.ask({
      title: `Remove ${stored}?`,
      text: [
        `svc removes ${stored} from ${place === "keychain" ? "the keychain" : ".env"}, and cannot bring it back.`,
        isUsed
          ? `In use: ${servers.join(", ")} ${servers.length === 1 ? "refers" : "refer"} to ${reference}. ${place === "keychain" ? "What runs keeps the old value until it restarts." : `svc stops ${servers.length === 1 ? "it" : "them"} until ${reference} has a value again.`}`
          : "No server refers to it.",
      ].join(" "),
      action: "Remove",
      isDangerous: true,
    })
    if (!isAgreed) return
    await run(reference, async () => {
      const path = `/secrets/${encodeURIComponent(stored)}?in=${place}`
      const { warnings = [] } = await api.send<{ warnings?: readonly string[] }>("DELETE", path)
      loaded.reload()
      const tone = warnings.length === 0 ? "good" : "notice"
      return { tone, text: [`${stored} was removed`, ...warnings].join("\n") }
    })
  }
  return (
    <>
      <Head title="Secrets" />
      <p class="soft">
        mcp.json refers to secrets as <code>${"{NAME}"}</code>. Their values are in .env or in the system keychain, and
        this page never shows them.
      </p>
      <MissingSecrets />
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
                {
                  title: "Reference",
                  kind: "name",
                  draw: ({ reference }) => (
                    <code>
                      <Breakable text={reference} />
                    </code>
                  ),
                },
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
                  draw: (secret) => {
                    const stored = storedOf(secret)
                    if (stored === undefined) return null
                    if (changed === secret.reference)
                      return <SecretField {...stored} onDone={() => setChanged(undefined)} />
                    return (
                      <div class="row">
                        <Button label={`Change ${stored.name}`} onClick={() => setChanged(secret.reference)}>
                          Change
                        </Button>
                        <Button
                          kind="danger"
                          isBusy={busy === secret.reference}
                          label={`Remove ${stored.name}`}
                          onClick={() => void remove(secret, stored)}
                        >
                          Remove
                        </Button>
                      </div>
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
            place=".env"
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

/** Returns what svc stores for a reference; undefined for a file, a command, or a secret that is missing. */
function storedOf({ reference, state }: Secret): StoredSecret | undefined {
  const [, scheme, name = ""] = /^\$\{(keychain:)?(.+)\}$/.exec(reference) ?? []
  if (scheme !== undefined) return state === "in the keychain" ? { name, place: "keychain" } : undefined
  return state === "in .env" ? { name, place: ".env" } : undefined
}
