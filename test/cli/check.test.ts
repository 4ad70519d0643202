/** `svc config check` and `svc doctor` know what a running svc would find. */
import { expect, test } from "bun:test"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { freshFolder } from "../e2e/harness.ts"
import { commandsIn } from "../run-command.ts"

/** A reference of each kind in each place that has them, with the word that an issue about it contains. */
const PLACES: readonly (readonly [word: string, config: (reference: string) => object])[] = [
  ["a is not loaded", (value) => ({ mcpServers: { a: { command: "node", args: [value] } } })],
  ["a is not loaded", (value) => ({ mcpServers: { a: { url: "https://a.example", headers: { X: value } } } })],
  [
    "template t cannot start for clients",
    (value) => ({ mcpTemplates: { t: { command: "node", args: ["x.js", "{{project.path}}"], env: { X: value } } } }),
  ],
  ["template t", (value) => ({ mcpTemplates: { t: { command: "node", args: ["x.js", value] } } })],
  ["registry r", (value) => ({ registries: [{ name: "r", url: "https://r.example", headers: { X: value } }] })],
  ["notify[0] is not used", (value) => ({ notify: [{ url: "https://n.example", headers: { X: value } }] })],
]

test("config check and doctor name each reference without a value, and none with one [secrets:failure] [cli:check]", async () => {
  const folder = freshFolder({ value: "a-value" })
  const svc = commandsIn(folder, { env: { SET: "a-value" } })
  const references = [
    ["${UNSET}", "${SET}"],
    ["${file:nowhere}", "${file:value}"],
    ["${cmd:false}", "${cmd:echo a-value}"],
  ] as const
  for (const [word, config] of PLACES)
    for (const [without, withValue] of references) {
      const write = (value: string) =>
        writeFileSync(join(folder, "mcp.json"), JSON.stringify({ allowCommands: true, ...config(value) }))
      write(without)
      const wrong = await svc("config", "check", "--strict")
      const found = JSON.parse((await svc("doctor", "--json")).stdout).findings.map(
        ({ what }: { what: string }) => what,
      )
      expect([word, without, wrong.code]).toEqual([word, without, 78])
      expect([without, wrong.stdout]).toEqual([without, expect.stringContaining(word)])
      expect(found.filter((what: string) => what.includes(word))).toHaveLength(1)
      write(withValue)
      expect([word, withValue, await svc("config", "check", "--strict")]).toMatchObject([
        word,
        withValue,
        { code: 0, stdout: "no issues\n" },
      ])
    }
})

test("config check runs no commands unless the configuration or --allow-commands allows it [secrets:commands]", async () => {
  const folder = freshFolder({
    "project.json": JSON.stringify({
      allowCommands: true,
      mcpServers: { a: { command: "node", env: { X: "${cmd:touch ran}" } } },
    }),
  })
  const svc = commandsIn(folder)
  const check = (...flags: string[]) => svc("config", "check", "--config", join(folder, "project.json"), ...flags)
  expect(await check()).toMatchObject({ code: 78, stdout: expect.stringContaining("commands are off") })
  expect((await check("--allow-commands")).stdout).toContain("touch printed nothing")
})
