/** The Skills extension through the built binary: servers and clients of both eras. extension: Skills. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test"
import { createHash } from "node:crypto"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from "@modelcontextprotocol/client"
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as Http1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { z } from "zod"
import { fixture, freshFolder, type Instance, type Remote, startHttp, startSvc } from "./harness.ts"

type File = { uri: string; digest: string; size: number }
type Skill = { uri: string; frontmatter: { name: string }; resources: File[] | "dynamic" }
type Result = {
  skills: Skill[]
  skill: Skill
  resources: { uri: string }[]
  contents: { uri: string; text: string }[]
  nextCursor?: string
  ttlMs?: number
  cacheScope?: string
}
type Peer = {
  readonly extensions: unknown
  ask(method: string, params?: object): Promise<Result>
  close(): Promise<void>
}

async function connectLegacy(url: string): Promise<Peer> {
  const client = new Client1({ name: "one", version: "1" })
  await client.connect(new Http1(new URL(url)) as never)
  return {
    extensions: client.getServerCapabilities()?.extensions,
    ask: (method, params = {}) => client.request({ method, params } as never, z.looseObject({}) as never) as never,
    close: () => client.close(),
  }
}
async function connectModern(url: string): Promise<Peer> {
  const client = new Client2({ name: "two", version: "1" }, { versionNegotiation: { mode: "auto" } })
  await client.connect(new Http2(new URL(url)))
  return {
    extensions: client.getServerCapabilities()?.extensions,
    ask: (method, params = {}) => client.request({ method, params } as never, z.looseObject({}) as never) as never,
    close: () => client.close(),
  }
}

const stdio = (...args: string[]) => ({ command: "bun", args: [fixture("skills.ts"), ...args] })
const SKILLS = "io.modelcontextprotocol/skills"
const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`

const folder = freshFolder()
const text = join(folder, "body.md")
let remote: Remote
let svc: Instance
beforeAll(async () => {
  writeFileSync(text, "First.")
  remote = await startHttp("skills.ts", "--modern")
  svc = await startSvc({
    folder,
    config: {
      mcpServers: {
        old: { ...stdio("--text", text), tags: ["a"] },
        new: { url: remote.url, tags: ["b"] },
        flat: { ...stdio("--modern", "--flat"), tags: ["c"] },
        asks: { ...stdio("--modern", "--ask"), tags: ["d"] },
        plain: { command: "bun", args: [fixture("lists.ts")], tags: ["e"] },
      },
    },
  })
})
afterAll(async () => {
  await svc?.[Symbol.asyncDispose]()
  await remote?.stop()
})

describe.each([
  ["legacy", connectLegacy],
  ["modern", connectModern],
] as const)("to a %s client", (era, connect) => {
  test("the skills of all servers in its view are listed under qualified URIs, with their digests [skills:aggregate]", async () => {
    const peer = await connect(`${svc.url}/mcp?tags=a,b,d`)
    expect(peer.extensions).toMatchObject({ [SKILLS]: { directoryRead: true } })
    const { skills, nextCursor, ttlMs, cacheScope } = await peer.ask("skills/list")
    expect(skills.map(({ uri }) => uri)).toEqual([
      "svc://old/skill://team/notes/SKILL.md",
      "svc://old/skill://team/daily/SKILL.md",
      "svc://new/skill://team/notes/SKILL.md",
      "svc://new/skill://team/daily/SKILL.md",
    ])
    expect(
      skills.map(({ resources }) => (resources === "dynamic" ? resources : resources.map(({ uri }) => uri))),
    ).toEqual([
      ["svc://old/skill://team/notes/SKILL.md", "svc://old/skill://team/notes/templates/a.md"],
      "dynamic",
      ["svc://new/skill://team/notes/SKILL.md", "svc://new/skill://team/notes/templates/a.md"],
      "dynamic",
    ])
    expect(nextCursor).toBeUndefined()
    // A server that asks the client something is left out, so the list is not fresh.
    expect([ttlMs, cacheScope]).toEqual(era === "modern" ? [0, "private"] : [undefined, undefined])
    for (const { resources } of skills)
      for (const { uri, digest, size } of resources === "dynamic" ? [] : resources) {
        const [content] = (await peer.ask("resources/read", { uri })).contents
        expect([content?.uri, digestOf(content?.text ?? ""), Buffer.byteLength(content?.text ?? "")]).toEqual([
          uri,
          digest,
          size,
        ])
      }
    await peer.close()
  })

  test("a skill that changes has its new digest at once [skills:aggregate]", async () => {
    const peer = await connect(`${svc.url}/mcp?tags=a`)
    const uri = "svc://old/skill://team/notes/SKILL.md"
    const fileOf = (skill: Skill | undefined) => (skill?.resources === "dynamic" ? undefined : skill?.resources[0])
    const before = fileOf((await peer.ask("skills/list")).skills[0])
    writeFileSync(text, `Second, for ${era} clients.`)
    const [content] = (await peer.ask("resources/read", { uri })).contents
    const after = { uri, digest: digestOf(content?.text ?? ""), size: Buffer.byteLength(content?.text ?? "") }
    expect(after.digest).not.toBe(before?.digest)
    expect(fileOf((await peer.ask("skills/list")).skills[0])).toEqual(after)
    expect(fileOf((await peer.ask("skills/get", { uri })).skill)).toEqual(after)
    await peer.close()
  })

  test("a skill is found by its URI, listed or not, and a directory is read [skills:aggregate]", async () => {
    const peer = await connect(`${svc.url}/mcp`)
    for (const server of ["old", "new"]) {
      const { skill, ttlMs } = await peer.ask("skills/get", { uri: `svc://${server}/skill://team/hidden/SKILL.md` })
      expect(skill).toMatchObject({
        uri: `svc://${server}/skill://team/hidden/SKILL.md`,
        frontmatter: { name: "hidden" },
        resources: [{ uri: `svc://${server}/skill://team/hidden/SKILL.md` }],
      })
      if (era === "modern") expect(ttlMs).toBe(server === "new" ? 60_000 : 0)
      const { resources } = await peer.ask("resources/directory/read", { uri: `svc://${server}/skill://team/notes` })
      expect(resources.map(({ uri }) => uri)).toEqual([
        `svc://${server}/skill://team/notes/SKILL.md`,
        `svc://${server}/skill://team/notes/templates`,
      ])
    }
    await peer.close()
  })

  test("a URI that is no skill, or of a server without skills or out of its view, is refused with -32602 [skills:aggregate]", async () => {
    const peer = await connect(`${svc.url}/mcp?tags=a,c,e`)
    const refused = (method: string, uri: string) =>
      expect(peer.ask(method, { uri })).rejects.toMatchObject({ code: -32602 })
    await refused("skills/get", "svc://old/skill://team/absent/SKILL.md")
    await refused("skills/get", "skill://team/notes/SKILL.md")
    await refused("skills/get", "svc://plain/skill://team/notes/SKILL.md")
    await refused("skills/get", "svc://new/skill://team/notes/SKILL.md")
    await refused("resources/directory/read", "svc://old/skill://team/notes/SKILL.md")
    await refused("resources/directory/read", "svc://flat/skill://team/notes")
    await peer.close()
  })

  test("skills are advertised only if a server of its view has them, and only with what one of them supports [aggregate:extensions]", async () => {
    const extensions = async (tags: string) => {
      const peer = await connect(`${svc.url}/mcp?tags=${tags}`)
      await peer.close()
      return peer.extensions
    }
    expect(await extensions("c")).toEqual({ [SKILLS]: {} })
    expect(await extensions("c,a")).toEqual({ [SKILLS]: { directoryRead: true } })
    expect(await extensions("e")).toEqual({ "io.modelcontextprotocol/ui": {} })
  })

  test("the address of one server relays the extension as it is, page by page [skills:aggregate]", async () => {
    for (const server of ["old", "new"]) {
      const peer = await connect(`${svc.url}/servers/${server}/mcp`)
      expect(peer.extensions).toEqual({ [SKILLS]: { directoryRead: true }, "com.example/x": {} })
      const { skills, nextCursor, ttlMs } = await peer.ask("skills/list")
      expect([skills.map(({ uri }) => uri), nextCursor]).toEqual([["skill://team/notes/SKILL.md"], "more"])
      if (era === "modern") expect(ttlMs).toBe(server === "new" ? 60_000 : 0)
      const next = await peer.ask("skills/list", { cursor: nextCursor })
      expect(next.skills.map(({ uri }) => uri)).toEqual(["skill://team/daily/SKILL.md"])
      const uri = "skill://team/notes/SKILL.md"
      expect((await peer.ask("skills/get", { uri })).skill.uri).toBe(uri)
      const { resources } = await peer.ask("resources/directory/read", { uri: "skill://team/notes" })
      expect(resources.map((child) => child.uri)).toEqual([uri, "skill://team/notes/templates"])
      await peer.close()
    }
  })
})

test("the list of skills comes in pages if svc's lists do [skills:aggregate]", async () => {
  await using paged = await startSvc({
    config: { mcpServers: { one: stdio(), two: { url: remote.url } } },
    flags: ["--pagination", "3"],
  })
  const peer = await connectModern(`${paged.url}/mcp`)
  const first = await peer.ask("skills/list")
  const second = await peer.ask("skills/list", { cursor: first.nextCursor })
  expect([...first.skills, ...second.skills].map(({ uri }) => uri)).toEqual(
    ["one", "two"].flatMap((server) => [
      `svc://${server}/skill://team/notes/SKILL.md`,
      `svc://${server}/skill://team/daily/SKILL.md`,
    ]),
  )
  expect([first.skills.length, second.nextCursor]).toEqual([3, undefined])
  await expect(peer.ask("skills/list", { cursor: "x" })).rejects.toMatchObject({ code: -32602 })
  await peer.close()
})
