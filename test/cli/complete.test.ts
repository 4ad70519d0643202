/** The completions that `svc complete` offers for the last word of a line. */
import { expect, test } from "bun:test"
import { type Completion, complete, formatCompletion } from "../../src/cli/complete.ts"
import { root } from "../../src/cli/root.ts"

/** Completes a line, with names that show which kind of name was requested. */
const completing = (line: string): Promise<Completion> =>
  complete(root, line.split(" "), async (kind, flags, before) =>
    kind === "" ? [] : [[`${kind}s`, ...Object.entries(flags).flat(), ...before].join("/"), "other"],
  )

const offered = async (line: string): Promise<readonly string[]> =>
  (await completing(line)).candidates.map(([word]) => word)

test.each([
  ["sto", ["stop"]],
  ["mcp st", ["status", "start"]],
  ["--config-dir d mcp st", ["status", "start"]],
  ["auth tok", ["token"]],
  ["auth token rev", ["revoke"]],
  // Command names of other programs lead to the same commands.
  ["servers st", ["status", "start"]],
  ["demo", ["demo-server"]],
  ["complet", ["completion"]],
  ["nonsense ", []],
])("the line `%s` is completed with commands [cli:completion]", async (line, words) => {
  expect(await offered(line)).toEqual(words)
})

test.each([
  ["serve --log-f", ["--log-format", "--log-file"]],
  ["serve --no-re", ["--no-reload"]],
  ["mcp status --ver", ["--verbose"]],
  ["mcp status alpha --he", ["--help"]],
  ["serve --log-level ", ["debug", "info", "warn", "error"]],
  ["serve --log-level de", ["debug"]],
  ["serve --log-level=de", ["--log-level=debug"]],
  // The words as bash splits them.
  ["serve --log-level = de", ["--log-level=debug"]],
  ["serve --log-level =", ["--log-level=debug", "--log-level=info", "--log-level=warn", "--log-level=error"]],
  ["mcp add air -t ht", ["http"]],
  ["completion f", ["fish"]],
  ["serve --filter ", []],
])("the line `%s` is completed with flags and their values [cli:completion]", async (line, words) => {
  expect(await offered(line)).toEqual(words)
})

test.each([
  ["mcp status ", ["servers", "other"]],
  ["mcp status o", ["other"]],
  ["mcp edit --config-dir d ", ["servers/config-dir/d", "other"]],
  ["mcp restart --config=f ", ["servers/config/f", "other"]],
  ["mcp tools disable web ", ["tools/web", "other"]],
  ["mcp tools disable web x ", ["tools/web/x", "other"]],
  ["mcp remove a ", ["servers/a", "other"]],
  // Each name is offered once, and none after a command that takes a single name.
  ["mcp remove other ", ["servers/other"]],
  ["mcp status a ", []],
  ["run a ", []],
  ["mcp render ", ["templates", "other"]],
  ["preset show ", ["presets", "other"]],
  ["proxy --preset ", ["presets", "other"]],
  ["auth token revoke ", ["tokens", "other"]],
  ["config restore ", ["backups", "other"]],
  // A new name is not completed to an existing one.
  ["mcp add ", []],
  ["mcp status one ", []],
])("the line `%s` is completed with names [cli:completion]", async (line, words) => {
  expect(await offered(line)).toEqual(words)
})

test.each([
  ["serve --tls-cert ", "files"],
  ["serve --tls-cert=", "files"],
  ["serve --config-dir ", "directories"],
  ["mcp add air ", "files"],
  ["mcp add air -- npx ", "files"],
  ["mcp status -- ", "none"],
] as const)("the line `%s` is completed with files or nothing [cli:completion]", async (line, others) => {
  expect(await completing(line)).toEqual({ others, candidates: [] })
})

test("an answer has one line per candidate, whatever characters a name contains [cli:completion]", () => {
  expect(
    formatCompletion({
      others: "none",
      candidates: [
        ["a\nb", ""],
        ["c", "the\tthird"],
      ],
    }),
  ).toBe("none\na\\nb\t\nc\tthe third\n")
})
