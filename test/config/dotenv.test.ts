import { expect, test } from "bun:test"
import { parseEnv } from "node:util"
import fc from "fast-check"
import { parseDotenv } from "../../src/config/dotenv.ts"
import { ConfigError } from "../../src/lib/errors.ts"

test("values are parsed as dotenv parses them [env:dotenv:format]", () => {
  const text = `# a comment
PLAIN=one two  # not this
export EXPORTED=yes
EMPTY=
SINGLE='raw \\n $X # kept'
DOUBLE="line\\none \\"two\\" # kept" # gone
MULTI="first
second"
TICKS=\`it's "so"\`
  INDENTED = spaced
HASH=a#b
YAML: like
PATH_IN_QUOTES="C:\\temp\\"
APOSTROPHE='it\\'s'
WINDOWS=1\r
`
  expect({ ...parseDotenv(text, ".env") }).toEqual({
    PLAIN: "one two",
    EXPORTED: "yes",
    EMPTY: "",
    SINGLE: "raw \\n $X # kept",
    DOUBLE: 'line\none "two" # kept',
    MULTI: "first\nsecond",
    TICKS: `it's "so"`,
    INDENTED: "spaced",
    HASH: "a",
    YAML: "like",
    PATH_IN_QUOTES: "C:\\temp\\",
    APOSTROPHE: "it\\'s",
    WINDOWS: "1",
  })
})

test.each([
  ["A=1\nnonsense\n", 2],
  ['A="open\nB=1', 1],
  ["A='x' y", 1],
  ["1A=2", 1],
])("a malformed text is rejected with its line: %p", (text, line) => {
  try {
    parseDotenv(text, ".env")
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as ConfigError).issues[0]?.line).toBe(line)
  }
})

// The oracle ignores malformed lines and, unlike dotenv, keeps `\\"` in double quotes: neither is among the pieces.
test("a well-formed text has the values that util.parseEnv reads", () => {
  const piece = fc.constantFrom(
    "A",
    "B_1",
    "=",
    "=",
    '"',
    "'",
    "`",
    "x y",
    "#",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\\n",
    "\\r",
    "export ",
    ": ",
  )
  const entry = fc
    .tuple(
      fc.constantFrom("A", "B_1", "export C", " D"),
      fc.constantFrom("=", " = ", ": "),
      fc.array(piece, { maxLength: 6 }),
    )
    .map(([name, separator, value]) => `${name}${separator}${value.join("")}`)
  const text = fc
    .array(
      fc.oneof(
        entry,
        fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join("")),
      ),
    )
    .map((lines) => lines.join("\n"))
  let accepted = 0
  fc.assert(
    fc.property(text, (text) => {
      let values: Readonly<Record<string, string>>
      try {
        values = parseDotenv(text, ".env")
      } catch {
        return
      }
      accepted++
      expect({ ...values }).toEqual({ ...parseEnv(text) } as Record<string, string>)
    }),
    { numRuns: 3000 },
  )
  expect(accepted).toBeGreaterThan(300)
})

test.each(["A=a\0b", 'A="a\u001bb"', "A='\u007f'"])(
  "a control character makes the file malformed: %j [env:dotenv:control]",
  (line) => {
    expect(() => parseDotenv(`OK=1\n${line}\n`, ".env")).toThrow("the value of A contains a control character")
    expect({ ...parseDotenv('A="a\tb\nc"', ".env") }).toEqual({ A: "a\tb\nc" })
  },
)
