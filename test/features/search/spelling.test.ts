import { describe, expect, test } from "bun:test"
import { corrections, lettersOf } from "../../../src/features/search/spelling.ts"

const known = ["repository", "report", "delete", "relate", "issue", "tissue", "sheet", "a", "log"].map((word) => ({
  word,
  stem: word,
  letters: lettersOf(word),
}))
const near = (word: string) => corrections(word, known).map((correction) => correction.word)

describe("corrected spelling", () => {
  test("a missing, an additional, a wrong and a swapped letter are one edit each", () => {
    expect(near("isue")).toEqual(["issue"])
    expect(near("isssue")[0]).toBe("issue")
    expect(near("izsue")).toEqual(["issue"])
    expect(near("isseu")).toEqual(["issue"])
  })

  test("longer words may have more errors, and words of three letters none", () => {
    expect(near("repositroyi")).toEqual(["repository"])
    expect(near("lgo")).toEqual([])
    expect(near("xheez")).toEqual([])
  })

  test("the nearest word is first, and a wrong first letter is less likely", () => {
    expect(near("dissue")).toEqual(["issue", "tissue"])
    expect(near("delate")[0]).toBe("delete")
  })

  test("the beginning of a word finds it, behind a word with one error", () => {
    expect(near("repor")).toEqual(["report"])
    // A word of four letters abbreviates much longer ones only.
    expect(near("repo")).toEqual(["repository"])
    expect(near("reporr")).toEqual(["report"])
  })

  test("a very long word is not corrected", () => {
    expect(near("repository".repeat(100))).toEqual([])
  })
})
