/** A question of a tool that runs, with the form that it asks for. */
import { useState } from "preact/hooks"
import { useApp } from "../context.ts"
import { useAction } from "../hooks.ts"
import { defaultsOf } from "../json-schema.ts"
import { Button, Dialog, Failure } from "../parts.tsx"
import { focusMissing, SchemaForm } from "../schema-form.tsx"
import type { ToolQuestion } from "../types.ts"

/** Shows the question and sends the answer. Closing it cancels the question. */
export function ToolAsks({ tool, question }: { tool: string; question: ToolQuestion }) {
  const { api } = useApp()
  const { id, message, requestedSchema = {}, url } = question
  const [value, setValue] = useState<Readonly<Record<string, unknown>>>(() => defaultsOf(requestedSchema))
  const [isTried, setTried] = useState(false)
  const [busy, run, problem] = useAction("here")
  const answer = (action: "accept" | "decline" | "cancel") =>
    run(action, async () => {
      const content = action === "accept" && url === undefined ? { content: value } : {}
      await api.send("POST", `/questions/${encodeURIComponent(id)}`, { action, ...content })
      return undefined
    })
  return (
    <Dialog title={`${tool} asks`} onClose={() => void answer("cancel")}>
      <p class="prose-text">{message}</p>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          setTried(true)
          if (!focusMissing(event.currentTarget)) void answer("accept")
        }}
      >
        {url === undefined ? (
          <SchemaForm schema={requestedSchema} value={value} isTried={isTried} onChange={setValue} />
        ) : (
          <p>
            It asks you to visit{" "}
            {/^https?:\/\//.test(url) ? (
              <a href={url} target="_blank" rel="noopener noreferrer">
                {url}
              </a>
            ) : (
              <code>{url}</code>
            )}
          </p>
        )}
        {problem !== undefined && <Failure text={problem} />}
        <div class="actions">
          <Button isBusy={busy === "decline"} onClick={() => void answer("decline")}>
            Decline
          </Button>
          <Button kind="primary" type="submit" isBusy={busy === "accept"}>
            {url === undefined ? "Answer" : "Done"}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
