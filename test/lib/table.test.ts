import { expect, test } from "bun:test"
import { cut, cutPath, formatFacts, formatTable, printableLines, wrap } from "../../src/lib/table.ts"
import { paint } from "../../src/lib/terminal.ts"

const plain = { width: Number.POSITIVE_INFINITY, color: false }
const head = ["name", "pid", "note"]

test("columns are aligned by the columns of a terminal, and empty ones are left out [cli:table]", () => {
  expect(
    formatTable(
      head,
      [
        ["日本", "", "x"],
        ["a", "", "y"],
      ],
      plain,
    ),
  ).toBe("NAME  NOTE\n日本  x\na     y")
})

test("the widest columns give way until a table fits its terminal [cli:table]", () => {
  const note = "the command npxx is not found in any folder of the server's PATH, which is long"
  for (const width of [40, 80, 120]) {
    const lines = formatTable(head, [["a-server-of-a-name", "12", note]], { width, color: true }).split("\n")
    for (const line of lines) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(width)
    expect(lines[1]).toStartWith(width < 80 ? "a-server-of-a-n…  12" : "a-server-of-a-name  12")
    expect(lines[1]?.endsWith("…")).toBe(width < 120)
  }
})

test("an address stays whole, and advice continues at a word below [cli:table]", () => {
  const columns = ["file", { title: "address", fit: "whole" }, { title: "note", fit: "wrap" }] as const
  const row = ["/home/me/.config/svc/mcp.json", "http://127.0.0.1:3050/mcp", "run `svc auth login web` to sign in"]
  expect(formatTable(columns, [row], { width: 60, color: false }).split("\n")).toEqual([
    "FILE             ADDRESS                    NOTE",
    "/home/me/.conf…  http://127.0.0.1:3050/mcp  run `svc auth",
    `${" ".repeat(44)}login web\` to`,
    `${" ".repeat(44)}sign in`,
  ])
  expect(formatTable(columns, [row], { width: 20, color: false })).toContain("http://127.0.0.1:3050/mcp")
})

test("a command wraps between its words, and no title is cut, as long as other values can be cut [cli:table]", () => {
  const columns = ["name", { title: "starts", fit: "words" }, "client name"] as const
  const row = [
    "files-of-the-whole-company",
    "npx -y @modelcontextprotocol/server-filesystem /home/me",
    "claude-desktop-app",
  ]
  expect(formatTable(columns, [row], { width: 70, color: false }).split("\n")).toEqual([
    "NAME           STARTS                                   CLIENT NAME",
    "files-of-the…  npx -y                                   claude-deskt…",
    "               @modelcontextprotocol/server-filesystem",
    "               /home/me",
  ])
  for (const line of formatTable(columns, [row], { width: 40, color: false }).split("\n"))
    expect(Bun.stringWidth(line)).toBeLessThanOrEqual(40)
})

test("of a long path, the end stays, which says most [cli:table]", () => {
  const columns = ["name", { title: "file", fit: "path" }] as const
  expect(formatTable(columns, [["a", "~/.config/svc/mcp.json"]], { width: 23, color: false })).toEndWith(
    "…/svc/mcp.json",
  )
  expect(cutPath("C:\\Users\\me\\mcp.json", 13)).toBe("…\\me\\mcp.json")
  expect(cutPath("/srv/a-very-long-name.json", 11)).toBe("…-name.json")
  expect(cutPath("/srv/日本語日本語", 6)).toBe("…本語")
  expect(cutPath("~/fits", 6)).toBe("~/fits")
})

test("a long value is cut at a word, or inside a word that fills the column [cli:table]", () => {
  expect(cut("could not be started at all", 20)).toBe("could not be…")
  expect(cut("https://example.com/authorize", 12)).toBe("https://exa…")
  expect(cut("日本語日本語", 6)).toBe("日本…")
  expect(cut("Reads a file as text. Handles encodings", 28)).toBe("Reads a file as text…")
  expect(cut("fits", 4)).toBe("fits")
})

test("a server's text cannot paint in a table, nor move the cursor anywhere [cli:table]", () => {
  const evil = "\u001b[32mconnected\u001b[0m\u001b[2J\u009b2J"
  const escaped = "\\u001b[32mconnected\\u001b[0m\\u001b[2J\\u009b2J"
  expect(formatTable(["a"], [[evil]], { ...plain, color: true }).split("\n")[1]).toBe(escaped)
  const painted = paint("ok", "good", { ...plain, color: true })
  const colored = "\u001b[32mconnected\u001b[0m\\u001b[2J\\u009b2J"
  expect(printableLines(`${painted} ${evil}`)).toBe(`\u001b[32mok\u001b[0m ${colored}`)
  expect(printableLines("\u001b[31m\u009b\u001b[0m\u001b[31m")).toBe("\u001b[31m\\u009b\u001b[0m\\u001b[31m")
})

test("facts about one thing are whole, and wrap under themselves [cli:table]", () => {
  const facts = [
    ["state", { text: "failed", tone: "bad" }],
    ["none", ""],
    ["note", "command not found: npxx (give its full path, or add its folder to PATH)"],
  ] as const
  expect(formatFacts(facts, { width: 40, color: false })).toBe(
    "  state  failed\n  note   command not found: npxx (give\n         its full path, or add its\n         folder to PATH)",
  )
})

test("a long line wraps at words, indented; without a width it stays whole [cli:table]", () => {
  const line = "  fix: put the right header into the file of the configuration"
  expect(wrap(line, { width: 40, color: false })).toBe(
    "  fix: put the right header into the\n    file of the configuration",
  )
  expect(wrap(line, plain)).toBe(line)
})
