import { expect, test } from "bun:test"
import { parseDotenv } from "../../src/config/dotenv.ts"
import { ConfigError } from "../../src/lib/errors.ts"

test("values are read as dotenv has them [env:dotenv:format]", () => {
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
])("a malformed text is refused with its line: %p", (text, line) => {
  try {
    parseDotenv(text, ".env")
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    expect((error as ConfigError).issues[0]?.line).toBe(line)
  }
})
