import { expect, test } from "bun:test"
import { fewFiles, fileLimitWarning } from "../../src/app/file-limit.ts"

const limits = (files: string) => `Limit                     Soft Limit           Hard Limit           Units
Max processes             96000                96000                processes
Max open files            ${files.padEnd(20)} ${files.padEnd(20)} files
`

test("svc warns of a limit of open files below its maximum number of sessions, and says how to raise it [serve:open-files]", () => {
  expect(fewFiles(limits("1024"), 10_000)).toMatch(/only 1024 files open.*hard limit to 10000 .*LimitNOFILE=/)
  expect(fewFiles(limits("10000"), 10_000)).toBeUndefined()
  expect(fewFiles(limits("unlimited"), 10_000)).toBeUndefined()
  expect(fewFiles("", 10_000)).toBeUndefined()
})

test.skipIf(process.platform !== "linux")("the limit is read from the system [serve:open-files]", () => {
  expect(fileLimitWarning(Number.MAX_SAFE_INTEGER)).toContain("files open")
  expect(fileLimitWarning(1)).toBeUndefined()
})
