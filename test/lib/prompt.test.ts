/** The prompts, typed at in a terminal: each case runs in a process of its own. */
import { expect, test } from "bun:test"
import { join } from "node:path"

const PROMPT = join(import.meta.dir, "..", "..", "src", "lib", "prompt.ts")

/** Asks for a line, as `answer` does. */
const type = (secret: boolean, keys: string) => answer(`promptLine("key: ", ${secret})`, "key: ", keys)

/** Asks one question in a terminal, types `keys` when its end is shown, and returns what was shown and what came of it. */
async function answer(question: string, end: string, keys: string): Promise<string> {
  let shown = ""
  const decoder = new TextDecoder()
  const { promise: ended, resolve } = Promise.withResolvers<void>()
  const code = `import { promptLine, promptYesNo } from ${JSON.stringify(PROMPT)}
    const print = (outcome) => console.log("outcome " + JSON.stringify(outcome))
    await ${question}.then(print, ({ name, during, fault }) => print({ name, during, fault }))`
  Bun.spawn([process.execPath, "-e", code], {
    terminal: {
      data(terminal, bytes) {
        const before = shown
        shown += decoder.decode(bytes, { stream: true })
        if (!before.includes(end) && shown.includes(end)) terminal.write(keys)
      },
      // The exit of the process is too early: the terminal may still hold what the process wrote.
      exit(terminal) {
        terminal.close()
        resolve()
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

test("the sentences of a question wrap at words, and its indented lines stay whole [cli:table]", async () => {
  const command = `  npx -y ${"package/".repeat(12)}`
  const question = `${"a word ".repeat(14)}would run\n${command}\ninstall it?`
  const shown = await answer(`promptYesNo(${JSON.stringify(question)})`, "[y/N] ", "y\r")
  expect(shown).toContain(`would run\n${command}\ninstall it? [y/N] `)
  expect(shown).toEndWith("outcome true\n")
  for (const line of shown.split("\n")) if (line !== command) expect(line.length).toBeLessThanOrEqual(80)
})
