/** A large answer that passes while it arrives is the same JSON as one that is read whole, or it is broken off with a reason. */
import { describe, expect, test } from "bun:test"
import { Connection } from "../../src/backend/connection.ts"
import { systemClock } from "../../src/lib/clock.ts"
import { createMarker } from "../../src/lib/seal.ts"
import { createRequestIds, decode, encode } from "../../src/wire/frame.ts"
import { AGGREGATE, fakeClient, fakeExchange, fakeGateway, fakePeer, fakeSpec } from "../fakes.ts"

const ids = createRequestIds("Rand0m")

type Sent = {
  /** The answer that the client gets: as the call's answer, or in parts. */
  readonly text: string
  /** "whole": as the call's answer; "passed": in parts, to its end; "broken": in parts, without an end. */
  readonly how: "whole" | "passed" | "broken"
  /** The lines that are logged. */
  readonly log: readonly string[]
}

/** Relays a call whose answer, with svc's id for ID, arrives in pieces of `size` bytes. */
async function relayed(frame: string, size: number, method = "tools/call"): Promise<Sent> {
  const log: string[] = []
  const connection = new Connection("s", ids, systemClock, {
    owner: undefined,
    callerOfTask: () => undefined,
    onprotocolerror: (text) => void log.push(text),
    onnotification() {},
  })
  const arrive = (bytes: Uint8Array) => {
    const sink = size < bytes.length ? connection.offer(bytes.slice(0, size)) : undefined
    if (sink === undefined) return connection.receive(bytes)
    for (let at = size; at < bytes.length; at += size) void sink.push(bytes.slice(at, at + size))
    sink.end()
  }
  connection.attach({
    pid: undefined,
    buffered: 0,
    close: async () => undefined,
    send(text) {
      const { id } = JSON.parse(String(text)) as { id?: string }
      if (id !== undefined) queueMicrotask(() => arrive(encode(frame.replaceAll("ID", `"${id}"`))))
    },
  })
  const parts: string[] = []
  let isOpen = false
  let hasEnded = false
  const openBody = () => {
    isOpen = true
    return {
      write: (part: Uint8Array | string) => void parts.push(typeof part === "string" ? part : decode(part)),
      end() {
        hasEnded = true
      },
    }
  }
  const gateway = fakeGateway({
    tasks: { mark: createMarker(() => new Uint8Array(32)) },
    directory: { target: () => ({ spec: fakeSpec(), connection, peer: fakePeer("legacy") }) },
  })
  const request = { jsonrpc: "2.0" as const, id: 7, method, params: { name: "t", uri: "u" } }
  const call = {
    request,
    gateway,
    client: fakeClient("legacy", { scope: AGGREGATE }),
    exchange: fakeExchange({ openBody }),
  }
  const answer = await gateway.toServer(call, { name: "t", uri: "u" }, { id: "s", slug: "s", name: "t", mirrored: [] })
  const whole = typeof answer.frame === "string" ? answer.frame : decode(answer.frame)
  if (!isOpen) return { text: whole, how: "whole", log }
  return { text: parts.join(""), how: hasEnded ? "passed" : "broken", log }
}

const LONG = "a line \\n".repeat(20_000)
const BLOCK = `{"type":"text","text":"${LONG}"}`
const answer = (result: string, more = ""): string => `{"jsonrpc":"2.0","id":ID,"result":${result}${more}}`

describe("an answer that passes while it arrives is the same JSON as one that is read whole [relay:streamed:same]", () => {
  const CASES: Readonly<Record<string, string>> = {
    "a number as a name in its result": answer(`{"content":[${BLOCK}],"1":2,"00":[{"x":1,"7":2}],"\\u0032":3}`),
    "a number as a name in its block": answer(`{"content":[{"type":"text","text":"${LONG}","1":2},${BLOCK}]}`),
    "a number as a name in its frame": answer(`{"content":[${BLOCK}]}`, ',"1":2'),
    "a number as a name before its text": answer(
      `{"0":{"5":1,"4":2},"content":[{"9":1,"type":"text","text":"${LONG}"}]}`,
    ),
    "a name that ends like a number": answer(`{"content":[${BLOCK}],"a\\"1":2,"b":"\\"3\\":"}`),
    "a name of more than 64 KiB": answer(`{"content":[${BLOCK}],"${"n".repeat(100_000)}":1}`),
    "a number of more than 64 KiB": answer(`{"content":[${BLOCK}],"n":1${"0".repeat(100_000)}}`),
    "a text that the placeholder of svc was once": answer(
      `{"content":[{"type":"text","text":"\ufdd0large value\ufdd1"},${BLOCK}]}`,
    ),
    "a member with points in its name": answer(`{"content":[${BLOCK}],"content..text":"${LONG}"}`),
    "a text that a short one replaces": answer(`{"content":[{"type":"text","text":"${LONG}","text":"short"}]}`),
    "a text that others replace": answer(
      `{"content":[{"type":"text","text":"${LONG}","text":"${LONG}a","x":1,"text":"${LONG}b","x":2,"x":3}]}`,
    ),
    "content that other content replaces": answer(`{"content":[${BLOCK}],"content":[{"type":"text","text":"short"}]}`),
    "a type that another replaces": answer(`{"content":[{"type":"text","text":"${LONG}","type":"image"}]}`),
    "a result type that another replaces": answer(`{"isError":true,"content":[${BLOCK}],"isError":false}`),
    "a URI behind its text": answer(
      `{"content":[{"type":"resource","resource":{"text":"${LONG}","uri":"a:b"}},{"type":"resource_link","uri":"c:d"}]}`,
    ),
  }
  test.each(Object.entries(CASES))("with %s", async (_, frame) => {
    const whole = await relayed(frame, Number.POSITIVE_INFINITY)
    for (const size of [66_000, 150_000]) {
      const passed = await relayed(frame, size)
      expect([passed.how, passed.log]).toEqual(["passed", []])
      expect(JSON.parse(passed.text)).toEqual(JSON.parse(whole.text))
    }
  })
})

describe("an answer that is broken off", () => {
  const CASES: readonly (readonly [what: string, frame: string, reason: string])[] = [
    ["is no JSON", answer(`{"content":[${BLOCK}}`), "sent a message that is not JSON"],
    [
      "repeats a member of the envelope",
      answer(`{"content":[${BLOCK}]}`, ',"id":ID'),
      "sent a message with a duplicate member",
    ],
    [
      "contradicts its beginning",
      answer(`{"content":[{"type":"resource_link","uri":"a:b","name":"n"},${BLOCK}],"content":[]}`),
      "answered with a large result that contradicts itself at its end",
    ],
  ]
  test.each(CASES)(
    "because it %s is logged once, with its tool and the reason [relay:broken:log]",
    async (_, frame, reason) => {
      const { how, log } = await relayed(frame, 70_000)
      expect([how, log]).toEqual(["broken", [`its answer to tools/call of t was broken off: ${reason}`]])
    },
  )
})
