/** The help pages, and the screens of the built binary at 80 and 120 columns, against the golden files. `bun run golden` rewrites them. */
import { expect, test } from "bun:test"
import { readFileSync } from "node:fs"
import { goldenHelp, goldenScreens } from "../golden/write.ts"

test.if(process.platform === "linux")(
  "the main screens are those of the golden files; `bun run golden` rewrites them [cli:table]",
  async () => {
    for (const [file, text] of await goldenScreens()) {
      expect([file, text]).toEqual([file, readFileSync(file, "utf8")])
      const width = Number(/(\d+)\.txt$/.exec(file)?.[1])
      // Commands and places in files are not broken, so that they can be copied.
      const cells = text.split("\n").filter((line) => !/claude mcp add|mcp\.json/.test(line))
      expect([file, cells.filter((line) => Bun.stringWidth(line) > width)]).toEqual([file, []])
    }
  },
)

test("the help pages are those of the golden files; `bun run golden` rewrites them [cli:help]", async () => {
  for (const [file, text] of await goldenHelp()) expect([file, text]).toEqual([file, readFileSync(file, "utf8")])
})
