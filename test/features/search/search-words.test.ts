import { expect, test } from "bun:test"
import fc from "fast-check"
import { wordsOf } from "../../../src/features/search/search-words.ts"

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
