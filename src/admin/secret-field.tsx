/** A field for a secret that a server lacks. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "./context.ts"
import { useAction } from "./hooks.ts"
import { Button, Failure, Field } from "./parts.tsx"
import { linkTo } from "./router.ts"

/** A secret, and where svc stores it. */
export type StoredSecret = { readonly name: string; readonly place: ".env" | "keychain" }

/** Asks for the value of a secret, and stores it in `.env` or in the keychain, never in mcp.json. */
export function SecretField({ name, place, onDone }: StoredSecret & { onDone?(): void }) {
  const { api } = useApp()
  const [value, setValue] = useState("")
  const [busy, run, problem] = useAction("here")
  const save = async () => {
    const isDone = await run("save", async () => {
      await api.send("PUT", `/secrets/${encodeURIComponent(name)}`, { value, in: place })
      return `${name} is stored in ${place === "keychain" ? "the keychain" : ".env"}; svc starts the servers that use it`
    })
    if (!isDone) return
    setValue("")
    onDone?.()
  }
  return (
    <form
      class="secret"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <Field
        label={name}
        hint={`svc ${place === "keychain" ? "stores it in the keychain of the system" : "writes it into .env"}. It does not show it again.`}
      >
        {(id, describedBy) => (
          <input
            id={id}
            type="password"
            autocomplete="off"
            required
            aria-describedby={describedBy}
            value={value}
            onInput={({ currentTarget }) => setValue(currentTarget.value)}
          />
        )}
      </Field>
      <Button kind="primary" type="submit" isBusy={busy !== undefined} label={`Set ${name}`}>
        Set
      </Button>
      {problem !== undefined && <Failure text={problem} />}
    </form>
  )
}

/** A field for each secret that some server lacks, and a button if svc could not read one. */
export function MissingSecrets() {
  const issues = useStateOf((state) => state.issues)
  const text = issues.map(({ message }) => message).join("\n")
  const missing = missingSecrets(text)
  const isUnread = text.includes("`svc secret refresh`")
  if (missing.length === 0 && !isUnread) return null
  return (
    <section class="panel">
      <h2>Missing secrets</h2>
      {missing.map((secret) => (
        <SecretField key={`${secret.place} ${secret.name}`} {...secret} />
      ))}
      {isUnread && <ReadAgain />}
    </section>
  )
}

function ReadAgain() {
  const { api } = useApp()
  const [busy, run] = useAction()
  const read = () =>
    run("read", async () => {
      await api.send("POST", "/secrets/refresh")
      return "svc has read the secrets again"
    })
  return (
    <>
      <p>
        svc could not read at least one secret; <a href={linkTo(["issues"])}>Issues</a> says why. Fix the cause, then
        let svc read the secrets again.
      </p>
      <Button isBusy={busy !== undefined} onClick={() => void read()}>
        Read the secrets again
      </Button>
    </>
  )
}

/** Returns the secrets that a message of svc names as missing, each once. */
export function missingSecrets(message: string): readonly StoredSecret[] {
  const variables = [...message.matchAll(/refers to ([A-Za-z_]\w*), which is not set/g)]
  const others = [
    ...message.matchAll(/refers to \$\{keychain:([^{}]+)\}, which the keychain does not have; `svc secret set/g),
  ]
  const names = (found: readonly RegExpMatchArray[]) => [...new Set(found.map(([, name = ""]) => name))]
  return [
    ...names(variables).map((name): StoredSecret => ({ name, place: ".env" })),
    ...names(others).map((name): StoredSecret => ({ name, place: "keychain" })),
  ]
}
