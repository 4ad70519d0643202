/** The prompts, typed at in a terminal: each case runs in a process of its own. */
import { expect, test } from "bun:test"
import { join } from "node:path"

const PROMPT = join(import.meta.dir, "..", "..", "src", "lib", "prompt.ts")

/** Asks one question in a terminal, types `keys` when it is shown, and returns what was shown and what came of it. */
async function type(secret: boolean, keys: string): Promise<string> {
  let shown = ""
  const decoder = new TextDecoder()
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const code = `import { promptLine } from ${JSON.stringify(PROMPT)}
    const print = (outcome) => console.log("outcome " + JSON.stringify(outcome))
    await promptLine("key: ", ${secret}).then(print, ({ name, during, fault }) => print({ name, during, fault }))`
  Bun.spawn([process.execPath, "-e", code], {
    terminal: {
      data(terminal, bytes) {
        const before = shown
        shown += decoder.decode(bytes, { stream: true })
        if (!before.includes("key: ") && shown.includes("key: ")) terminal.write(keys)
      },
      // The exit of the process is too early: the terminal may still hold what the process wrote.
      exit(terminal) {
        terminal.close()
        end()
      },
    },
  })
  await ended
  return shown.replaceAll("\r\n", "\n")
}

test("a line ends at Return, and Backspace takes a character back", async () => {
  expect(await type(false, "ab\u007fc\r")).toEndWith('outcome "ac"\n')
})

test("a secret is not echoed", async () => {
  const shown = await type(true, "hunter2x\u007f\r")
  expect(shown).toEndWith('key: \noutcome "hunter2"\n')
})

test("Ctrl-C at a secret is an interrupt, Ctrl-D the end of the line", async () => {
  expect(await type(true, "hun\u0003")).toEndWith('outcome {"name":"Interrupted","during":"prompt"}\n')
  expect(await type(true, "hun\u0004")).toEndWith('outcome "hun"\n')
})

test("an answer is bounded, and no part of a secret that is too long is echoed", async () => {
  const shown = await type(true, `${"x".repeat(70_000)}\r`)
  expect(shown).toEndWith('key: \noutcome {"name":"RequestError","fault":"usage"}\n')
})
