/** What a person sees who is not logged in. */

import { useApp } from "../context.ts"
import { Button } from "../parts.tsx"

/** Says how to get in. */
export function LoginView() {
  const { live } = useApp()
  return (
    <main id="main" class="login" tabIndex={-1}>
      <h1>Log in to svc</h1>
      <p>Run this command on the machine where svc runs, as the user who runs it:</p>
      <pre class="code">svc admin</pre>
      <p>
        It opens this page in the browser, logged in. For a browser on another machine, <code>svc admin --print</code>{" "}
        prints the link. A link works once, within 60 seconds.
      </p>
      <Button kind="primary" onClick={() => void live.refresh()}>
        Try again
      </Button>
    </main>
  )
}
