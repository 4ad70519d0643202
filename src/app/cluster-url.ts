/** Reads the URL of `--cluster`. No message repeats a part of it that may belong to a password. */
import { usageError } from "../lib/command-line.ts"
import { didYouMean } from "../lib/nearest.ts"
import type { ClusterOptions } from "../serve/cluster.ts"

/**
 * Reads the URL of Redis, and fills in references to variables. `typed`: it comes from the command line, which other users of the
 * machine can read, and not from SVC_CLUSTER. Throws a RequestError (usage) that says which part is wrong.
 */
export function readClusterUrl(
  text: string,
  typed: boolean,
  env: Readonly<Record<string, string | undefined>>,
): Omit<ClusterOptions, "address"> {
  const name = typed ? "--cluster" : "SVC_CLUSTER"
  const filled = text.replace(/\$\{(\w+)\}/g, (_, variable: string) => {
    const value = env[variable]
    if (value === undefined || value === "") throw usageError(`${name} refers to ${variable}, which is not set`)
    return encodeURIComponent(value)
  })
  const shape = `${name} must be the URL of one Redis or Valkey, not of a Sentinel or a Redis Cluster, such as rediss://user:\${REDIS_PASSWORD}@redis.example.com:6379${schemeMeant(text)}`
  if (!URL.canParse(filled)) throw usageError(`${shape}${text.includes("@") ? ENCODING : ""}`)
  const url = new URL(filled)
  if (!/^rediss?:$/.test(url.protocol) || url.hostname === "" || url.hostname.includes(",")) throw usageError(shape)
  // A password that is not encoded may end the host early: the rest of it is then read as path, query or fragment.
  const isCut = `${url.pathname}${url.search}${url.hash}`.includes("@")
  const wrong = (what: string) => usageError(`${name}: ${what}${isCut ? ENCODING : ""}`)
  const echo = (word: string) => (!isCut && /^[\w-]{1,30}$/.test(word) ? `, not ${word}` : "")
  if (typed && url.password !== "" && !/:\$\{\w+\}@/.test(text))
    throw usageError(
      "a password on the command line can be read by other users: write ${NAME} in its place and set that variable, or set SVC_CLUSTER",
    )
  if (!isEncoded(url.username) || !isEncoded(url.password))
    throw usageError(`${name}: a % in the user or the password must be written as %25`)
  if (url.port === "0") throw wrong("the port must be from 1 to 65535")
  const database = url.pathname.replace(/^\//, "")
  if (!/^\d*$/.test(database) || Number(database) > MAX_DATABASE)
    throw wrong(`the database must be a number, such as 1 in redis://redis.example.com:6379/1${echo(database)}`)
  if (url.hash !== "") throw wrong("nothing may follow #")
  for (const parameter of url.searchParams.keys())
    if (parameter !== "prefix")
      throw wrong(
        `the only parameter is prefix, such as ?prefix=staging:${echo(parameter)}${isCut ? "" : didYouMean(parameter, ["prefix"])}`,
      )
  if (url.searchParams.getAll("prefix").length > 1) throw wrong("prefix must be given once")
  const prefix = url.searchParams.get("prefix") ?? "svc:"
  url.search = ""
  url.pathname = database
  if (url.port === "") url.port = "6379"
  return { url: url.href, prefix }
}

// ---

/** The largest database number of Redis. */
const MAX_DATABASE = 2 ** 31 - 1
const ENCODING = "; in the user and the password, write ? as %3F, # as %23, / as %2F and @ as %40"

/** Returns a question that suggests a scheme in place of an unknown one, for the end of a message; empty if none is close. */
function schemeMeant(text: string): string {
  const scheme = /^[a-z+-]{1,20}(?=:\/\/)/i.exec(text)?.[0].toLowerCase()
  if (scheme === undefined || scheme === "redis" || scheme === "rediss") return ""
  if (/^(?:valkeys$|redis[+-](?:tls|ssl)$)/.test(scheme)) return "; did you mean rediss://?"
  if (scheme === "valkey") return "; did you mean redis://?"
  return didYouMean(scheme, ["redis", "rediss"]).replace(/\?$/, "://?")
}

function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
