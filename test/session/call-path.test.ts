import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { join } from "node:path"

const SRC = join(import.meta.dir, "..", "..", "src")

/**
 * The functions that a call of a tool passes when nothing is waited for: the file, the function, and how it calls the next one. The
 * middleware of the listener counts as one, and so do the stages. A stack trace would not show them: the engine drops the frames of
 * functions that end with a call.
 */
const PATH = [
  ["serve/server.ts", "serveRoute", "serveMcp("],
  ["serve/mcp.ts", "serveMcp", "servePost("],
  ["serve/mcp.ts", "servePost", "postHere("],
  ["serve/mcp.ts", "postHere", "serve("],
  ["session/endpoint.ts", "serve", "dispatch("],
  ["session/dispatch.ts", "dispatch", "follow("],
  ["session/dispatch.ts", "follow", "gateway.toServer("],
  ["session/stages.ts", "throughStages", "relay"],
  ["session/relay.ts", "relay", "connection.request("],
  ["backend/connection.ts", "request", "this.send("],
] as const

for (const [file, name, next] of PATH)
  test(`a call goes on from ${name} in ${file}`, () => {
    expect(bodyOf(file, name)).toContain(next)
  })

test("a call passes at most eleven functions between the listener and the transport", () => {
  // The last one sends it.
  expect(PATH.length + 1).toBeLessThanOrEqual(11)
})

test("a request is decided once: only `ready` asks for its destination", () => {
  const files = [...new Bun.Glob("{session,serve,call,app}/**/*.ts").scanSync(SRC)]
  const asking = files.filter((file) => /\bdestinationOf\(/.test(readFileSync(join(SRC, file), "utf8")))
  expect(asking.toSorted()).toEqual(["call/destination.ts", "call/ready.ts", "session/audit.ts"])
})

// ---

/** Returns the text of a function or method of a file, up to the bracket that closes it. */
function bodyOf(file: string, name: string): string {
  const text = readFileSync(join(SRC, file), "utf8")
  const start = new RegExp(`^( *)(?:export )?(?:async )?(?:function |const )?${name}(?: = )?\\(`, "m").exec(text)
  if (start === null) throw new Error(`${file} has no function ${name}`)
  const rest = text.slice(start.index)
  const end = new RegExp(`^${start[1]}(?:\\}|  \\}\\))$`, "m").exec(rest)
  return rest.slice(0, end?.index)
}
