/** Answers `read_result`, and `resources/read` of `svc://results/…`, with parts of a stored result, only to its owner. */

import { type Answer, resultAnswer } from "../../call/answer.ts"
import type { ClientCall } from "../../call/ports.ts"
import { RequestError, UnavailableError } from "../../lib/errors.ts"
import { cutText } from "../../lib/text.ts"
import { unknownName } from "../../session/relay.ts"
import { replicaIn } from "../../store/replica-id.ts"
import { asText, isObject, type Params } from "../../wire/message.ts"
import { type ResultsPort, resultOwner, resultUri } from "./result-budget.ts"
import { type ResultPart, readPart } from "./result-parts.ts"
import type { ResultReader } from "./result-store.ts"

/** Answers a call of `read_result`. Answers mistakes of a model with results that say what to do. */
export async function answerReadResult(call: ClientCall, results: ResultsPort): Promise<Answer> {
  const { arguments: written } = call.request.params ?? {}
  const args = isObject(written) ? written : {}
  const named = namedIn(asText(args.id ?? args.uri ?? ""))
  try {
    const part = await readOf(call, results, named.id, { ...named.query, ...args })
    if (part === undefined)
      return toolAnswer(
        call,
        [
          {
            type: "text",
            text:
              named.id === ""
                ? "id is missing: give the ID in svc://results/<id>."
                : `No stored result has the ID ${cutText(named.id, 60)}: ${whyMissing(named.id, results)}. Call the tool again.`,
          },
        ],
        true,
      )
    const note = { type: "text", text: `[${part.note}]` }
    if ("blob" in part) {
      const uri = `${resultUri(named.id)}?range=${asText(args.range ?? "0-")}`
      const resource = { uri, mimeType: part.mimeType, blob: part.blob.toString("base64") }
      return toolAnswer(call, [{ type: "resource", resource }, note])
    }
    return toolAnswer(call, part.text === "" ? [note] : [{ type: "text", text: part.text }, note])
  } catch (error) {
    if (!(error instanceof RequestError || error instanceof UnavailableError)) throw error
    return toolAnswer(call, [{ type: "text", text: error.message }], true)
  }
}

/** Answers the read of a stored result as a resource. Throws a RequestError if the client has none of this URI. */
export async function answerResultResource(call: ClientCall, results: ResultsPort, uri: string): Promise<Answer> {
  const { request, client } = call
  const { id, query } = namedIn(uri)
  const part = await readOf(call, results, id, query)
  if (part === undefined) throw unknownName("resource", uri, undefined)
  const { mimeType, note, size, sha256 } = part
  const about = { "svc/part": note, "svc/size": size, "svc/sha256": sha256 }
  const value = "blob" in part ? { blob: part.blob.toString("base64") } : { text: part.text }
  const members = client.era === "modern" ? { resultType: "complete", ttlMs: 0, cacheScope: "private" } : {}
  return resultAnswer(request.id, JSON.stringify({ ...members, contents: [{ uri, mimeType, ...value, _meta: about }] }))
}

// ---

function toolAnswer({ request, client }: ClientCall, content: readonly Params[], isError = false): Answer {
  const result = {
    ...(client.era === "modern" ? { resultType: "complete" } : {}),
    content,
    ...(isError ? { isError } : {}),
  }
  const answer = resultAnswer(request.id, JSON.stringify(result))
  return isError ? { ...answer, outcome: "tool_error" } : answer
}

/** Returns why a result is missing. A request for a result of another replica arrives here if that replica is gone. */
function whyMissing(id: string, results: ResultsPort): string {
  const replica = replicaIn(id)
  return replica === undefined || replica === results.replica
    ? "it belongs to another client, or has expired"
    : "the replica of svc that stored it is gone"
}

/** Bytes of a result of which several are read by a path at once. */
const SMALL = 1024 * 1024
/** Characters of the note around the part. */
const NOTE = 300

type Read = ResultPart & { readonly mimeType: string; readonly size: number; readonly sha256: string }

/** Reads a part; undefined if the client has no such result. Rejects with a RequestError or an UnavailableError. */
async function readOf(
  { client, exchange }: ClientCall,
  results: ResultsPort,
  id: string,
  args: Params,
): Promise<Read | undefined> {
  const store = await results.store()
  const reader: ResultReader | undefined = await store.open(id, resultOwner(client))
  if (reader === undefined) return undefined
  try {
    const { budget, mimeType, size, sha256 } = reader.about
    const room = (client.scope.resultBudget || budget) - NOTE
    const work = { clock: store.readClock, signal: exchange.cancellation.signal }
    const read = () => readPart(reader, args, room, work)
    const isWhole = args.path !== undefined && size > SMALL
    return { ...(await (isWhole ? store.wholeReads.run(read) : read())), mimeType, size, sha256 }
  } finally {
    await reader.close()
  }
}

/** Reads an id, or a URI with the part in its query. */
function namedIn(written: string): { readonly id: string; readonly query: Params } {
  const [, id = written.trim(), search = ""] = /^\s*svc:\/\/results\/(r?[0-9a-f]*)(?:\?(.*))?$/s.exec(written) ?? []
  return { id, query: Object.fromEntries(new URLSearchParams(search)) }
}
