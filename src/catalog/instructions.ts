/**
 * The instructions of the aggregate, within a budget of characters: clients put them into every context, and cut long ones.
 *
 *  1. The essential part comes first, if possible within ESSENTIAL characters: the names of tools, one line per server, and the
 *     servers that are not available.
 *  2. The servers' own instructions share the rest; short instructions leave their share to the others.
 *  3. The text depends only on the servers' own texts. Whole instructions are the resource `svc:instructions/<server>`.
 */
import { counted, cutText } from "../lib/text.ts"
import type { Route, ServerPart, View } from "./catalog.ts"
import { qualify } from "./name.ts"

/** A server of the scope that is not connected, and its state in a word. */
export type UnavailableServer = { readonly slug: string; readonly state: string }

/**
 * Returns the instructions of the servers of a view, `budget` characters at most; undefined without servers. With `lead`, which tells
 * how to find tools in a lazy view, of each server only the name and the number of its tools: a search answers with the rest.
 */
export function aggregateInstructions(
  { parts, isRenamed }: Pick<View, "parts" | "isRenamed">,
  unavailable: readonly UnavailableServer[],
  budget: number,
  lead?: string,
): string | undefined {
  if (parts.length + unavailable.length === 0) return undefined
  const servers = parts.map(summaryOf)
  const down = unavailable
    .map(({ slug, state }) => `${slug} (${state === "starting" ? "still starting" : state})`)
    .join(", ")
  const shortens = parts.some(({ qualified }) => [...qualified.tools].some(([name, route]) => isShortened(name, route)))
  const notes = [shortens ? SHORTENED : undefined, lead].filter((note) => note !== undefined).join("\n") || undefined
  const missing = down === "" ? "" : `\nNot available now: ${cut(down, MAX_DOWN)}`
  const intro = [introOf(servers, isRenamed), notes].filter((line) => line !== undefined).join("\n")
  if (lead !== undefined) return counts(servers, intro, missing, budget)
  const head = essential(servers, intro, missing, budget)
  // Does not repeat instructions that are already in the server's line.
  const described = servers.filter(({ text, purpose }) => text !== "" && oneLine(text) !== purpose)
  const left = budget - head.length - POINTER.length
  const most = shareOf(described.map(sectionLength), left)
  const sections = described.flatMap((server) => {
    const room = most - (sectionLength(server) - server.text.length)
    if (server.text.length <= room) return [`\n\n# ${server.slug}\n\n${server.text}`]
    return room < MIN_SECTION ? [] : [`\n\n# ${server.slug}\n\n${cut(server.text, room)}`]
  })
  const isWhole = sections.length === described.length && described.every((server) => sectionLength(server) <= most)
  return `${head}${isWhole || left < 0 ? "" : POINTER}${sections.join("")}`
}

/** Returns the whole instructions of the server that a URI of svc names, or undefined. */
export function instructionsAt(uri: unknown, parts: readonly ServerPart[]): string | undefined {
  if (typeof uri !== "string" || !uri.startsWith(SCHEME)) return undefined
  return parts.find(({ spec }) => uri === `${SCHEME}${spec.slug}`)?.listing.instructions
}

// ---

const SCHEME = "svc:instructions/"
const POINTER = `\nWhole instructions of a server: resource ${SCHEME}<server>`

const SHORTENED = "Long names are shortened in the list and end with a hash."

const isShortened = (listed: string, { slug, name }: Route): boolean => listed.length < qualify(slug, name).length

const ESSENTIAL = 512
/** The limit of the list of unavailable servers, in characters. */
const MAX_DOWN = 160
/** The least characters of an excerpt: less of a server's instructions is of no use. */
const MIN_SECTION = 80
/** Limits of a server's purpose, in characters, from which the first is used that fits. */
const PURPOSE_LENGTHS = [160, 100, 60, 30, 0]

type Summary = { readonly slug: string; readonly count: string; readonly purpose: string; readonly text: string }

const sectionLength = ({ slug, text }: Summary): number => `\n\n# ${slug}\n\n`.length + text.length

function summaryOf({ spec, listing, plain }: ServerPart): Summary {
  const tools = [...plain.tools.keys()]
  const { title, description } = listing.serverInfo
  const text = (listing.instructions ?? "").trim()
  const stated = [firstSentence(text), description, title].find((one) => typeof one === "string" && oneLine(one) !== "")
  return {
    slug: spec.slug,
    count: counted(tools.length, "tool"),
    purpose: oneLine(typeof stated === "string" ? stated : tools.slice(0, MAX_TOOLS).join(", ")),
    text,
  }
}

/** Tools that stand for the purpose of a server that does not state it. */
const MAX_TOOLS = 8

function introOf(servers: readonly Summary[], isRenamed: boolean): string {
  const naming = isRenamed ? "." : ", each named <server>_svc_<tool>."
  return servers.length === 0
    ? "No MCP server is available."
    : `Tools of ${counted(servers.length, "MCP server")}${naming}`
}

/** Returns the names of the servers and their numbers of tools, as far as they fit. */
function counts(servers: readonly Summary[], start: string, down: string, budget: number): string {
  const names = servers.map(({ slug, count }) => `${slug} (${count})`).join(", ")
  const listed = servers.length === 0 ? "" : `\nServers: ${names}`
  const room = budget - start.length - down.length
  const pointer = servers.some(({ text }) => text !== "") && listed.length + POINTER.length <= room ? POINTER : ""
  return cut(`${start}${cut(listed, Math.max(0, room))}${down}${pointer}`, budget)
}

/** Returns the essential part, with the longest purposes that fit, or else with the names that fit. */
function essential(servers: readonly Summary[], start: string, down: string, budget: number): string {
  const texts = PURPOSE_LENGTHS.map((length) => start + servers.map((one) => lineOf(one, length)).join("") + down)
  const short = texts.find((text) => text.length <= Math.min(ESSENTIAL, budget))
  const found = short ?? texts.find((text) => text.length <= budget)
  return found ?? cut(`${start}${down}\nServers: ${servers.map(({ slug }) => slug).join(", ")}`, budget)
}

function lineOf({ slug, count, purpose }: Summary, length: number): string {
  const excerpt = length === 0 ? "" : cut(purpose, length)
  return `\n- ${slug} (${count})${excerpt === "" ? "" : `: ${excerpt}`}`
}

/** Returns the first sentence of the first paragraph that is not a heading. */
function firstSentence(text: string): string | undefined {
  const paragraph = text.split(/\n\s*\n/).find((one) => !/^\s*(?:#|---|<)/.test(one) && one.trim() !== "")
  return paragraph === undefined ? undefined : (/^.*?[.!?](?=\s|$)/.exec(oneLine(paragraph))?.[0] ?? paragraph)
}

/** Returns the limit of each length with which their sum is at most `total`. */
function shareOf(lengths: readonly number[], total: number): number {
  const sorted = [...lengths].sort((one, other) => one - other)
  let left = total
  for (const [at, length] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - at))
    if (length > share) return Math.max(0, share)
    left -= length
  }
  return Number.POSITIVE_INFINITY
}

/** Returns the first `length` characters of a text, with an ellipsis if it is longer. */
function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const start = cutText(text, length - 1)
  const word = /^(.*\S)\s+\S*$/s.exec(start)?.[1] ?? start
  return `${word.length > length / 2 ? word : start}…`
}

/** Returns a text on one line, without control and formatting characters. */
const oneLine = (text: string): string => text.replace(/[\s\p{Cc}\p{Cf}]+/gu, " ").trim()
