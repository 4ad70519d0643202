import { expect, test } from "bun:test"
import fc from "fast-check"
import { createWordReader, type ReadWord, wordsOf } from "../../../src/features/search/search-words.ts"

test("a plain text has the same words as it has beside other writing", () => {
  const plain = fc.string({ unit: fc.constantFrom(..."abIRS09'_-. \n"), maxLength: 30 })
  fc.assert(
    fc.property(plain, (text) => expect(wordsOf(`${text} é`)).toEqual([...wordsOf(text), "é"])),
    { numRuns: 2000 },
  )
  expect(wordsOf("createIssue in GitHub's HTTPServer, it’s URLs")).toEqual(
    "createissue create issue in github git hub httpserver http server it's urls".split(" "),
  )
})

test("a reader that remembers words reads each text as one that does not", () => {
  const reader = createWordReader<never>()
  const read = (text: string) => {
    const words: ReadWord<never>[] = []
    reader(text, words)
    return words.map(({ word }) => word)
  }
  const text = fc.string({ unit: fc.constantFrom(..."aabIRS09''_-. \né’"), maxLength: 12 })
  fc.assert(
    fc.property(text, (one) => expect(read(one)).toEqual(wordsOf(one))),
    { numRuns: 5000 },
  )
  // These two have the same place.
  expect(["Aa BB", "BB Aa"].map(read)).toEqual([
    ["aa", "bb"],
    ["bb", "aa"],
  ])
})
