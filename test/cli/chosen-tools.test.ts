import { expect, test } from "bun:test"
import { chosenTools } from "../../src/cli/chosen-tools.ts"

const TOOLS: Readonly<Record<string, readonly string[]>> = {
  github: ["get_issue", "delete_issue", "delete_repo"],
  "my notes": ["get_page", "search"],
}
const chosen = (...words: string[]) => chosenTools(words, Object.keys(TOOLS), async (server) => TOOLS[server] ?? [])

test.each([
  [["github", "get_issue"], { server: "github", tools: ["get_issue"] }],
  [["github/get_issue", "delete_repo"], { server: "github", tools: ["get_issue", "delete_repo"] }],
  [["my-notes_svc_search"], { server: "my notes", tools: ["search"] }],
  [["delete_*"], { server: "github", tools: ["delete_issue", "delete_repo"] }],
  [["github/*_issue"], { server: "github", tools: ["get_issue", "delete_issue"] }],
])("%j names tools of one server [tools:named]", async (words, tools) => {
  expect(await chosen(...words)).toEqual(tools)
})

test.each([
  [["get_*"], "github and my notes have tools that match get_*: write github/get_*"],
  [["search", "get_issue"], "name the tools of one server at a time: my notes or github"],
  [["github"], "github is a server"],
  [["serch"], "did you mean search?"],
  [["nothing_*"], "no server or tool is named nothing_*; `svc mcp tools list` lists the tools"],
])("%j is refused with what to write [tools:named]", async (words, message) => {
  await expect(chosen(...words)).rejects.toThrow(message)
})
