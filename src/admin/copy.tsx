/** A text to copy. */
import { useState } from "preact/hooks"
import { useApp } from "./context.ts"
import { Button } from "./parts.tsx"

/** A code with a button that copies it. `label` says what it is. */
export function Copy({ text, label }: { text: string; label: string }) {
  const { ui } = useApp()
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setCopied(true)
      setTimeout(() => setCopied(false), SHOWN_MS)
    } catch {
      // Browsers allow it only on https and on this machine.
      ui.say("notice", "The browser does not let this page copy. Select the text, then copy it.")
    }
  }
  return (
    <div class="copy">
      <pre class="code">{text}</pre>
      <Button label={`Copy ${label}`} onClick={() => void copy()}>
        {isCopied ? "Copied" : "Copy"}
      </Button>
    </div>
  )
}

const SHOWN_MS = 2000
