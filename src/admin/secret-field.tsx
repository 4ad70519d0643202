/** A field for a secret that a server lacks. */
import { useState } from "preact/hooks"
import { useApp, useStateOf } from "./context.ts"
import { useAction } from "./hooks.ts"
import { Button, Failure, Field } from "./parts.tsx"

/** Asks for the value of a variable, and stores it in `.env`, never in mcp.json. */
export function SecretField({ name, onDone }: { name: string; onDone?(): void }) {
  const { api } = useApp()
  const [value, setValue] = useState("")
  const [busy, run, problem] = useAction("here")
  const save = async () => {
    const isDone = await run("save", async () => {
      await api.send("PUT", `/secrets/${encodeURIComponent(name)}`, { value })
      return `${name} is stored in .env; svc starts the servers that use it`
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
      <Field label={name} hint="svc writes it into .env. It does not show it again.">
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

/** A field for each secret that some server lacks. */
export function MissingSecrets() {
  const issues = useStateOf((state) => state.issues)
  const names = [...new Set(issues.flatMap(({ message }) => missingVariables(message)))]
  if (names.length === 0) return null
  return (
    <section class="panel">
      <h2>Missing secrets</h2>
      {names.map((name) => (
        <SecretField key={name} name={name} />
      ))}
    </section>
  )
}

/** Returns the variables that a message of svc names as not set. */
export const missingVariables = (message: string): readonly string[] => [
  ...new Set([...message.matchAll(/refers to ([A-Za-z_]\w*), which is not set/g)].map(([, name = ""]) => name)),
]
