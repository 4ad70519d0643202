/** The view before a login. */
import { useState } from "preact/hooks"
import { textOf } from "../api.ts"
import { useApp, useStateOf } from "../context.ts"
import { Button, Failure, Field } from "../parts.tsx"

/** Explains how to log in, and accepts a token. */
export function LoginView() {
  const { live } = useApp()
  const requiredLogin = useStateOf((state) => state.requiredLogin)
  const refusal = useStateOf((state) => state.refusal)
  return (
    <main id="main" class="login" tabIndex={-1}>
      <h1>Log in to svc</h1>
      {refusal !== undefined && <Failure text={refusal} />}
      {requiredLogin === "issuer" && (
        <p>
          <a class="button primary" href="login">
            Log in at the issuer
          </a>
        </p>
      )}
      {requiredLogin !== "nothing" ? (
        <p>
          This svc requires a token (<code>--auth</code>). Log in with a token that is not limited to tags; to create
          one, run <code>svc auth token create --name admin</code>. A token from an issuer needs the scope{" "}
          <code>svc:admin</code>.
        </p>
      ) : (
        <>
          <p>On the machine where svc runs, run this command as the same user:</p>
          <pre class="code">svc admin</pre>
          <p>
            It opens this page in the browser and logs you in. For a browser on another machine,{" "}
            <code>svc admin --print</code> prints a link. The link works once, within 60 seconds.
          </p>
          <Button kind="primary" onClick={live.follow}>
            Try again
          </Button>
          <p>
            Or log in with a token; <code>svc admin --token</code> prints one:
          </p>
        </>
      )}
      <TokenForm />
    </main>
  )
}

function TokenForm() {
  const { api, live } = useApp()
  const [token, setToken] = useState("")
  const [problem, setProblem] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const logIn = async () => {
    setBusy(true)
    setProblem(undefined)
    try {
      await api.logIn(token.trim())
      live.follow()
    } catch (error) {
      setProblem(textOf(error))
    } finally {
      setBusy(false)
    }
  }
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault()
        void logIn()
      }}
    >
      <Field label="Token">
        {(id) => (
          <input
            id={id}
            type="password"
            autocomplete="off"
            required
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        )}
      </Field>
      {problem !== undefined && <Failure text={problem} />}
      <div>
        <Button type="submit" isBusy={isBusy}>
          Log in
        </Button>
      </div>
    </form>
  )
}
