/** A change of a file that a person sees before svc makes it: the lines that change, and a button that makes exactly this change. */
import type { ComponentChildren } from "preact"
import { useApp } from "./context.ts"
import { DiffLines, diffLinesOf } from "./diff.tsx"
import { useAction, useLoaded } from "./hooks.ts"
import { Button, Dialog, Failure, WhenLoaded } from "./parts.tsx"

/** The answer of an endpoint that shows a change, or makes it if the request has its digest. */
type Change = {
  readonly digest: string
  readonly diff?: string
  readonly file?: string
  readonly changed?: boolean
  /** What else to say of a change that was made. */
  readonly notes?: readonly string[]
}

type ChangeDialogProps = {
  readonly title: string
  /** The label of the button. */
  readonly action: string
  /** The endpoint below `/api/v1`, and the body of the request. */
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** Controls that change the body. */
  readonly children?: ComponentChildren
  /** What to say afterwards. */
  readonly done: string
  onClose(): void
  onDone(): void
}

/** Shows a change, and makes it. */
export function ChangeDialog({ title, action, path, body = {}, children, done, onClose, onDone }: ChangeDialogProps) {
  const { api } = useApp()
  const loaded = useLoaded(() => api.send<Change>("POST", path, body), [path, JSON.stringify(body)])
  const [busy, run, problem] = useAction("here")
  const make = async (digest: string) => {
    const isDone = await run("make", async () => {
      const { notes = [] } = await api.send<Change>("POST", path, { ...body, digest })
      return [done, ...notes].join("; ")
    })
    if (!isDone) return loaded.reload()
    onDone()
    onClose()
  }
  return (
    <Dialog title={title} isWide={true} onClose={onClose}>
      {children}
      <WhenLoaded loaded={loaded}>
        {({ digest, diff = "", file }) => (
          <>
            {file !== undefined && (
              <p class="soft">
                svc changes <code>{file}</code>, and keeps a backup of it.
              </p>
            )}
            {diff === "" ? (
              <p>Nothing would change: the file is already like this.</p>
            ) : (
              <DiffLines lines={diffLinesOf(diff)} />
            )}
            {problem !== undefined && <Failure text={problem} />}
            <div class="actions">
              <Button onClick={onClose}>Cancel</Button>
              <Button
                kind="primary"
                isBusy={busy !== undefined || loaded.isLoading}
                disabled={diff === ""}
                onClick={() => void make(digest)}
              >
                {action}
              </Button>
            </div>
          </>
        )}
      </WhenLoaded>
    </Dialog>
  )
}
