import { expect, test } from "bun:test"
import { readClusterUrl } from "../../src/app/cluster-url.ts"
import { RequestError } from "../../src/lib/errors.ts"

const read = (text: string, env: Record<string, string> = {}) => readClusterUrl(text, false, env)

const problemOf = (text: string): string => {
  try {
    read(text)
  } catch (error) {
    if (error instanceof RequestError && error.fault === "usage") return error.message
    throw error
  }
  return ""
}

test("a database is a number [cluster:option:checked]", () => {
  expect(read("redis://cache/7").url).toBe("redis://cache:6379/7")
  for (const none of ["redis://cache", "redis://cache/"]) expect(read(none).url).toBe("redis://cache:6379")
  for (const [text, echo] of [
    ["redis://cache/abc", ", not abc"],
    ["redis://cache:7000/1/2", ""],
    ["redis://cache/-1", ", not -1"],
    ["redis://cache/99999999999", ", not 99999999999"],
  ] as const)
    expect(problemOf(text)).toBe(
      `SVC_CLUSTER: the database must be a number, such as 1 in redis://redis.example.com:6379/1${echo}`,
    )
})

test("an unknown parameter is refused, and the one that was meant named [cluster:option:checked]", () => {
  expect(read("redis://cache?prefix=a:").prefix).toBe("a:")
  expect(problemOf("redis://cache?prefx=a:")).toBe(
    "SVC_CLUSTER: the only parameter is prefix, such as ?prefix=staging:, not prefx; did you mean prefix?",
  )
  expect(problemOf("redis://cache/1?prefix=a:&tls=on")).toEndWith(", not tls")
  expect(problemOf("redis://cache?prefix=a:&prefix=b:")).toEndWith("prefix must be given once")
  expect(problemOf("redis://cache#a")).toEndWith("nothing may follow #")
  expect(problemOf("redis://cache:0")).toEndWith("the port must be from 1 to 65535")
})

test.each([
  ["valkey://cache", "redis://"],
  ["valkeys://cache", "rediss://"],
  ["redis+tls://cache", "rediss://"],
  ["redsi://cache", "redis://"],
  ["redis-ssl://cache", "rediss://"],
])("of %s the scheme %s is suggested [cluster:option:checked]", (text, scheme) => {
  expect(problemOf(text)).toEndWith(`; did you mean ${scheme}?`)
})

test("a URL of another kind is refused without a suggestion", () => {
  for (const text of ["http://cache", "redis://", "redis://a:1,b:2", "redis:/cache", "redis://cache:99999"])
    expect(problemOf(text)).toMatch(/^SVC_CLUSTER must be the URL of one Redis or Valkey(?!.*did you mean)/)
})

test("a password that is not encoded is not repeated, and the message says how to write it [cluster:option:checked]", () => {
  for (const text of [
    "redis://user:12/s3cret@cache",
    "redis://user:12?s3cret@cache",
    "redis://user:12?s3cret=3@cache",
    "redis://user:12#s3cret@cache",
    "redis://:s3#cret@cache",
    "redis://:s3/cret@cache",
  ]) {
    const problem = problemOf(text)
    expect(problem).toContain("write ? as %3F")
    expect(problem).not.toMatch(/s3|cret@|12/)
  }
  expect(problemOf("redis://:s3%zz@cache")).toBe("SVC_CLUSTER: a % in the user or the password must be written as %25")
  expect(read("redis://:${PASSWORD}@cache", { PASSWORD: "a%b/c?d#e@f" }).url).toBe(
    "redis://:a%25b%2Fc%3Fd%23e%40f@cache:6379",
  )
})
