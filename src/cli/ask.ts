/** Questions to the person at the terminal. They go to stderr: stdout belongs to results. */

/** Whether there is somebody to ask. */
export const canAsk = (): boolean => process.stdin.isTTY === true

/** A yes-or-no question; no is the default. */
export async function agrees(question: string): Promise<boolean> {
  return /^y(es)?$/i.test((await answer(`${question} [y/N] `, false)).trim())
}

/** One line; what is typed for a secret is not shown. */
export async function answer(question: string, secret: boolean): Promise<string> {
  const { stdin, stderr } = process
  stderr.write(question)
  if (!secret) {
    for await (const line of console) return line
    return ""
  }
  stdin.setRawMode(true)
  let text = ""
  try {
    for await (const chunk of stdin)
      for (const key of String(chunk)) {
        if (key === "\r" || key === "\n" || key === "\u0004") return text
        if (key === "\u0003") process.exit(130)
        text = key === "\u007f" || key === "\b" ? text.slice(0, -1) : text + key
      }
    return text
  } finally {
    stdin.setRawMode(false)
    stderr.write("\n")
  }
}
