/**
 * Prompts for the user at the terminal, on stderr: stdout belongs to results. Not consola's prompts, which write to stdout,
 * cannot hide a secret, and never settle when the input ends.
 */
import { Interrupted, RequestError } from "./errors.ts"
import { stderrLook } from "./output.ts"
import { wrap } from "./table.ts"

/** Whether stdin is a terminal, at which a user can answer. */
export const isInteractive = (): boolean => process.stdin.isTTY === true

/** Asks a yes-or-no question; anything but yes is no. Its sentences wrap at words, its indented lines stay as they are. */
export async function promptYesNo(question: string): Promise<boolean> {
  const look = stderrLook()
  const lines = `${question} [y/N]`.split("\n").map((line) => (line.startsWith(" ") ? line : wrap(line, look)))
  return /^y(es)?$/i.test((await promptLine(`${lines.join("\n")} `, false)).trim())
}

/**
 * Asks for one line; the end of the input also ends it. Does not echo a secret. Throws Interrupted at Ctrl-C, and a RequestError
 * for a line longer than MAX_LINE, after reading it to its end: the terminal would echo the rest, and the shell would run it as
 * a command.
 */
export function promptLine(question: string, secret: boolean): Promise<string> {
  const { stdin, stderr } = process
  // Before the question is written, so that no key of the answer is echoed.
  if (secret) stdin.setRawMode(true)
  stderr.write(question)
  return new Promise((resolve, reject) => {
    let line = ""
    const settle = (end: () => void) => {
      stdin.off("data", onData)
      stdin.off("end", onEnd)
      stdin.pause()
      if (secret) {
        stdin.setRawMode(false)
        stderr.write("\n")
      }
      end()
    }
    const onEnd = () =>
      settle(() => {
        if (line.length <= MAX_LINE) resolve(line)
        else reject(new RequestError("usage", `the answer is longer than ${MAX_LINE} characters`))
      })
    const onData = (chunk: Buffer) => {
      for (const key of chunk.toString("utf8")) {
        switch (key) {
          case "\r":
          case "\n":
          case CTRL_D:
            return onEnd()
          case CTRL_C:
            return settle(() => reject(new Interrupted("prompt")))
          case BACKSPACE:
          case "\b":
            if (line.length <= MAX_LINE) line = line.slice(0, -1)
            break
          default:
            if (line.length <= MAX_LINE) line += key
        }
      }
    }
    stdin.on("data", onData)
    stdin.on("end", onEnd)
    stdin.resume()
  })
}

// ---

const CTRL_C = "\u0003"
const CTRL_D = "\u0004"
const BACKSPACE = "\u007f"
/** Longer than any key or certificate that a server may need. */
const MAX_LINE = 64 * 1024
