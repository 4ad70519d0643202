/** Finds out why a Redis cannot be used, and what to do about it. Bun reports every failure with the same text. */
import type { Clock } from "../../lib/clock.ts"
import { networkReason } from "../../lib/network-error.ts"

/**
 * Tries the first commands of svc over a separate connection. Resolves with the reason why they fail; undefined if they no longer
 * fail.
 */
export async function findProblem(url: string, clock: Clock): Promise<string | undefined> {
  const { protocol, username, password, pathname } = new URL(url)
  const isSecure = protocol === "rediss:"
  const database = pathname.slice(1)
  const commands = [
    ...(password === "" ? [] : [["AUTH", decodeURIComponent(username) || "default", decodeURIComponent(password)]]),
    ...(database === "" ? [] : [["SELECT", database]]),
    ["PING"],
  ]
  const outcome = await converse(url, isSecure, commands, clock)
  switch (outcome.kind) {
    case "answered":
      return outcome.refusal
    case "foreign":
      return NOT_REDIS
    case "unreachable":
      return networkReason(url, outcome.error)
    case "untrusted":
      return isProtocolError(outcome.error) ? NO_TLS : networkReason(url, outcome.error)
    case "silent":
      // A Redis without TLS takes the handshake for an incomplete command, and waits. The password is not sent without TLS.
      return isSecure && (await converse(url, false, [["PING"]], clock)).kind === "answered" ? NO_TLS : SILENT
    case "closed":
      return !isSecure && (await speaksTls(url, clock)) ? WANTS_TLS : CLOSED
  }
}

/** Returns what to do about a problem, for the end of a message; empty if the reason says it, or nothing can be done. */
export function adviceFor(reason: string, prefix: string): string {
  if (reason.startsWith("NOPERM"))
    return `; allow its user the keys and channels ${prefix}* and the commands that svc needs: ACL SETUSER … ~${prefix}* &${prefix}* +@all -@dangerous +info`
  const found = ADVICE.find(([pattern]) => pattern.test(reason))
  return found === undefined ? "" : `; ${found[1]}`
}

// ---

/** `refusal` is the first error that Redis answers; undefined if it answers none. */
type Outcome =
  | { readonly kind: "answered"; readonly refusal: string | undefined }
  | { readonly kind: "foreign" | "silent" | "closed" }
  | { readonly kind: "unreachable" | "untrusted"; readonly error: unknown }

const ANSWER_MS = 2000

const NO_TLS = "this port does not speak TLS"
const WANTS_TLS = "this port speaks only TLS"
const NOT_REDIS = "what listens there is not Redis"
const SILENT = "it does not answer"
const CLOSED = "it closes the connection"

const ADVICE: readonly (readonly [RegExp, string])[] = [
  [/^WRONGPASS/, "check the user and the password in --cluster"],
  [/^NOAUTH/, "write :${REDIS_PASSWORD}@ before the host in --cluster, and set that variable"],
  [
    /^ERR (?:invalid )?DB index/,
    "choose another database in --cluster, or raise `databases` in the configuration of Redis",
  ],
  [/^OOM/, "give it more memory"],
  [/^MISCONF/, "read the log of Redis: it cannot write to its disk"],
  [/^nothing listens/, "start Redis there, or correct the host and the port in --cluster"],
  [/\(no such host\)$/, "correct the host in --cluster"],
  [/\(its certificate is for another host\)$/, "name a host in --cluster that the certificate has"],
  [
    /^(?:it does not answer|no answer$|cannot reach .*\(no (?:answer|route))/,
    "check that Redis runs there, and that no firewall blocks the port",
  ],
  [/^this port does not/, "write redis:// in --cluster, or the port on which Redis speaks TLS"],
  [/^this port speaks only/, "write rediss:// in --cluster"],
  [/^(?:what listens there|it closes)/, "correct the host and the port in --cluster"],
]

const isProtocolError = (error: unknown): boolean =>
  error instanceof Error && "code" in error && error.code === "EPROTO"

async function speaksTls(url: string, clock: Clock): Promise<boolean> {
  const outcome = await converse(url, true, [["PING"]], clock)
  return outcome.kind === "answered" || (outcome.kind === "untrusted" && !isProtocolError(outcome.error))
}

/** Sends commands, and resolves with the outcome. Each answer is one line. */
async function converse(
  url: string,
  tls: boolean,
  commands: readonly (readonly string[])[],
  clock: Clock,
): Promise<Outcome> {
  const { hostname, port } = new URL(url)
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  const cancel = clock.after(ANSWER_MS, () => resolve({ kind: "silent" }))
  let text = ""
  const socket = await Bun.connect({
    hostname: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port),
    tls,
    socket: {
      open: (opened) => void opened.write(commands.map(encode).join("")),
      handshake(_, isTrusted, error) {
        if (!isTrusted) resolve({ kind: "untrusted", error })
      },
      data(_, bytes) {
        text += bytes.toString("latin1")
        const lines = text.split("\r\n").slice(0, -1)
        const refusal = lines.find((line) => line.startsWith("-"))
        if (!/^[+-]/.test(text)) resolve({ kind: "foreign" })
        else if (refusal !== undefined) resolve({ kind: "answered", refusal: refusal.slice(1).replace(/\.$/, "") })
        else if (lines.length >= commands.length) resolve({ kind: "answered", refusal: undefined })
      },
      close: () => resolve({ kind: "closed" }),
    },
  }).catch((error: unknown) => void resolve({ kind: "unreachable", error }))
  const outcome = await promise
  cancel()
  socket?.end()
  return outcome
}

const encode = (words: readonly string[]): string =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`
