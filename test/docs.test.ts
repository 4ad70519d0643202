/** The documentation: its reference tables are current, its links lead somewhere, and it names every folder. */
import { expect, test } from "bun:test"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { PAGES, regenerate } from "../scripts/docs.ts"

const root = join(import.meta.dir, "..")
const read = (name: string) => readFileSync(join(root, name), "utf8")
const documents = [
  "README.md",
  "CONTRIBUTING.md",
  "AGENTS.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" }).flatMap((name) =>
    name.endsWith(".md") ? [`docs/${name}`] : [],
  ),
]

test.each(PAGES)("the reference tables of docs/%s are current; `bun run docs` writes them", (page) => {
  const text = read(`docs/${page}`)
  expect(text).toContain("<!-- generated: ")
  expect(regenerate(text)).toBe(text)
})

test.each(documents)("links of %s lead to a file and a heading", (name) => {
  for (const [, path = "", anchor] of read(name).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
    const target = path === "" ? name : join(dirname(name), path)
    expect({ link: path, exists: existsSync(join(root, target)) }).toEqual({ link: path, exists: true })
    if (anchor !== undefined) expect(anchorsOf(read(target))).toContain(anchor)
  }
})

test("README is for users and fits 150 lines", () => {
  // Commands for the tests are hidden from readers.
  const visible = read("README.md").replace(/^<!-- run\n[\s\S]*?^-->\n\n?/gm, "")
  expect(visible.split("\n").length).toBeLessThanOrEqual(151)
})

test("architecture.md names every folder of src", () => {
  const text = read("docs/architecture.md")
  for (const entry of readdirSync(join(root, "src"), { withFileTypes: true }))
    if (entry.isDirectory()) expect(text).toContain(`${entry.name}/`)
})

test("architecture.md names a file that exists for every subject", () => {
  const [, section = ""] = read("docs/architecture.md").split("## Where things are decided\n")
  const files = [...(section.split("\n## ")[0] ?? "").matchAll(/`([\w-]+\/[\w-]+\.ts)`/g)].map(([, file = ""]) => file)
  expect(files.length).toBeGreaterThan(25)
  expect(files.filter((file) => !existsSync(join(root, "src", file)))).toEqual([])
})

/** The anchors that Markdown renderers give to headings. */
const anchorsOf = (text: string): readonly string[] =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  )
