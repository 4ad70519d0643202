/** The person at the terminal: questions, which go to stderr (stdout belongs to results), and the wish that it ends. */

/** Whether there is somebody to ask. */
export const isInteractive = (): boolean => process.stdin.isTTY === true

/** Aborts with the first signal that ends a command, so that what is half done can be taken back; the second ends it. */
export function interruptSignal(): AbortSignal {
  const controller = new AbortController()
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => {
      if (controller.signal.aborted) process.exit(1)
      controller.abort()
    })
  return controller.signal
}

/** A yes-or-no question; no is the default. */
export async function promptYesNo(question: string): Promise<boolean> {
  return /^y(es)?$/i.test((await promptLine(`${question} [y/N] `, false)).trim())
}

/** One line; what is typed for a secret is not shown. */
export function promptLine(question: string, secret: boolean): Promise<string> {
  const { stdin, stderr } = process
  // Before anything is asked, so that nothing of the answer is shown.
  if (secret) stdin.setRawMode(true)
  stderr.write(question)
  return new Promise((resolve) => {
    let text = ""
    const end = () => {
      stdin.off("data", onData)
      stdin.off("end", end)
      stdin.pause()
      if (secret) {
        stdin.setRawMode(false)
        stderr.write("\n")
      }
      resolve(text)
    }
    const onData = (chunk: Buffer) => {
      for (const key of chunk.toString("utf8")) {
        if (key === "\r" || key === "\n" || key === "\u0004") {
          end()
          return
        }
        if (key === "\u0003") process.exit(130)
        text = key === "\u007f" || key === "\b" ? text.slice(0, -1) : text + key
      }
    }
    stdin.on("data", onData)
    stdin.on("end", end)
    stdin.resume()
  })
}
