import { describe, expect, test } from "bun:test"
import { createSharedTokens, type SharedTokens } from "../../../src/features/cluster/shared-tokens.ts"
import {
  type ClientToken,
  createToken,
  NO_TOKENS,
  replaceTokens,
  type TokenFile,
} from "../../../src/store/client-tokens.ts"
import { type ManualClock, manualClock } from "../../clock.ts"
import { memoryNetwork, type SharedNetwork } from "../../memory-network.ts"

type Opened = SharedTokens & { readonly said: string[]; ids(filed?: readonly ClientToken[]): readonly string[] }

/** Opens the tokens of replicas that tell each other of changes. */
async function cluster(...stateKeys: readonly (string | undefined)[]): Promise<
  AsyncDisposable & {
    readonly network: SharedNetwork
    readonly clock: ManualClock
    readonly replicas: readonly [Opened, Opened]
    open(stateKey?: string): Promise<Opened>
  }
> {
  const network = await memoryNetwork()
  const clock = manualClock()
  const open = async (stateKey?: string): Promise<Opened> => {
    const said: string[] = []
    const state = await network.open()
    const tokens = createSharedTokens({
      state,
      stateKey,
      clock,
      tell: () => void state.publish("tokens").catch(() => undefined),
      onchange: () => void said.push("changed"),
      onunsealed: () => void said.push("unsealed"),
      onforeign: () => void said.push("foreign"),
    })
    state.onmessage((text) => void (text === "tokens" && tokens.sync()))
    const ids = (filed: readonly ClientToken[] = []) => [...tokens.merge(fileOf(...filed)).tokens.keys()]
    return { ...tokens, said, ids }
  }
  const close = () => network[Symbol.asyncDispose]()
  const replicas = [await open(stateKeys[0]), await open(stateKeys[1])] as const
  return { network, clock, replicas, open, [Symbol.asyncDispose]: close }
}

const make = (name: string): ClientToken => createToken(name, { now: 0 }).token

const fileOf = (...tokens: readonly ClientToken[]): TokenFile => ({
  ...NO_TOKENS,
  tokens: new Map(tokens.map((token) => [token.id, token])),
})

const DAY_MS = 24 * 3_600_000

describe("tokens of replicas", () => {
  test("a token that one replica creates or changes is that of all; a revoked one is refused, whatever a file says [cluster:tokens]", async () => {
    await using all = await cluster()
    const { replicas, open } = all
    const [one, other] = replicas
    const token = make("a")
    one.created(token)
    await one.sync()
    await other.sync()
    expect(other.ids()).toEqual([token.id])
    const limited = { ...token, tags: ["web"] }
    other.changed(limited)
    await other.sync()
    await one.sync()
    expect(one.merge(fileOf(token)).tokens.get(token.id)).toMatchObject(limited)
    other.revoked(token)
    await other.sync()
    await one.sync()
    expect([one.ids([token]), other.ids([token])]).toEqual([[], []])
    // A file that has it again changes nothing, nor does a replica that starts with one.
    one.created(token)
    const third = await open()
    await third.sync()
    expect([one.ids([token]), third.ids([token])]).toEqual([[], []])
    expect(one.said).toEqual(["unsealed", "changed", "changed"])
  })

  test("what changes while the state is away holds here at once, and everywhere when it is back", async () => {
    await using all = await cluster()
    const { network, replicas } = all
    const [one, other] = replicas
    const [kept, created] = [make("kept"), make("created")]
    await network.cut()
    one.created(created)
    other.revoked(kept)
    await Promise.all(replicas.map((tokens) => tokens.sync()))
    expect(one.ids([kept])).toEqual([kept.id, created.id])
    expect(other.ids([kept])).toEqual([])
    await network.mend()
    for (const tokens of [...replicas, ...replicas]) await tokens.sync()
    for (const tokens of replicas) expect(tokens.ids([kept])).toEqual([created.id])
  })

  test("a state that has lost what it held gets it back from the replicas", async () => {
    await using all = await cluster()
    const { network, replicas, open } = all
    const [kept, revoked] = [make("kept"), make("revoked")]
    replicas[0].created(kept)
    replicas[0].revoked(revoked)
    await replicas[0].sync()
    const state = await network.open()
    await state.remove("tokens")
    await replicas[0].sync()
    const third = await open()
    await third.sync()
    expect(third.ids([revoked])).toEqual([kept.id])
  })

  test("with SVC_STATE_KEY nobody else creates a token in Redis [cluster:tokens:sealed]", async () => {
    await using all = await cluster("one secret", "one secret")
    const { network, replicas, open } = all
    const [one, other] = replicas
    const [token, forged] = [make("a"), make("forged")]
    one.created(token)
    await one.sync()
    const state = await network.open()
    const stored = (await state.read("tokens"))?.[token.id] ?? ""
    expect(stored).not.toContain(token.hash)
    await state.write("tokens", { [forged.id]: JSON.stringify(forged), [make("moved").id]: stored })
    await other.sync()
    expect(other.ids()).toEqual([token.id])
    const stranger = await open("another secret")
    await stranger.sync()
    expect(stranger.ids()).toEqual([])
    expect([one.said, other.said, stranger.said].map((said) => said.includes("foreign"))).toEqual([false, true, true])
  })

  test("a revocation is kept until the token would have expired, and for a year if it does not expire [cluster:tokens:bounded]", async () => {
    await using all = await cluster()
    const { clock, network, replicas, open } = all
    const [one, other] = replicas
    const [endless, short] = [
      make("endless"),
      createToken("short", { now: 0, expires: clock.now() + 2 * DAY_MS }).token,
    ]
    for (const token of [endless, short]) one.revoked(token)
    await network.settle()
    const state = await network.open()
    const stored = async () => Object.keys((await state.read("tokens")) ?? {}).sort()
    const ids = (...tokens: readonly ClientToken[]) => tokens.map(({ id }) => id).sort()
    expect(await stored()).toEqual(ids(endless, short))
    await clock.pass(DAY_MS)
    await one.sync()
    expect(await stored()).toEqual(ids(endless, short))
    await clock.pass(DAY_MS)
    await one.sync()
    await other.sync()
    expect(await stored()).toEqual(ids(endless))
    await clock.pass(362 * DAY_MS)
    expect((await open()).ids([endless])).toEqual([endless.id])
    const late = await open()
    await late.sync()
    expect(late.ids([endless])).toEqual([])
    await clock.pass(2 * DAY_MS)
    for (const replica of [one, other, late]) await replica.sync()
    expect(await stored()).toEqual([])
  })
  test("what the file of a replica that starts says is revoked is refused by all, and each file keeps it [cluster:tokens:offline]", async () => {
    await using all = await cluster("a secret", "a secret")
    const { clock, replicas, open } = all
    const [one, other] = replicas
    const token = make("a")
    one.created(token)
    await one.sync()
    await other.sync()
    expect(other.ids()).toEqual([token.id])
    // By the command, while svc was stopped.
    const revoked = replaceTokens(fileOf(token), new Map(), clock.now())
    const started = await open("a secret")
    started.follow(revoked)
    await started.sync()
    expect(started.merge(revoked)).toEqual(revoked)
    await other.sync()
    expect(other.merge(fileOf(token))).toEqual(revoked)
    // The shared state and all memories are lost, but for one file.
    await all.network.clear()
    const last = await open("a secret")
    last.follow(revoked)
    await last.sync()
    const late = await open("a secret")
    await late.sync()
    expect(late.ids([token])).toEqual([])
    expect(late.said).not.toContain("foreign")
    await clock.pass(366 * DAY_MS)
    expect(late.merge(revoked).revoked.size).toBe(0)
  })

  test("of two changes of a token the newer one holds, also of one that was made while svc was stopped or cut off [cluster:tokens:newer]", async () => {
    await using all = await cluster()
    const { clock, network, replicas, open } = all
    const [one, other] = replicas
    const token = make("a")
    one.created(token)
    await network.settle()
    const tagsAt = (replica: Opened, filed: ClientToken = token) =>
      replica.merge(fileOf(filed)).tokens.get(token.id)?.tags
    // Edited while svc was stopped: what the others know is older.
    const limited = { ...token, tags: ["stopped"] }
    const started = await open()
    started.follow(fileOf(limited))
    await started.sync()
    await network.settle()
    for (const replica of [one, other, started]) expect(tagsAt(replica)).toEqual(["stopped"])
    // Changed elsewhere while svc was stopped: what its file has is older.
    await clock.pass(1000)
    other.changed({ ...token, tags: ["elsewhere"] })
    await network.settle()
    const again = await open()
    again.follow(started.merge(fileOf(limited)))
    await again.sync()
    await network.settle()
    for (const replica of [one, again]) expect(tagsAt(replica, limited)).toEqual(["elsewhere"])
    // Both changed without a connection: the earlier one comes back last.
    await network.cut()
    await clock.pass(1000)
    one.changed({ ...token, tags: ["earlier"] })
    await clock.pass(1000)
    other.changed({ ...token, tags: ["later"] })
    await network.mend()
    await other.sync()
    await one.sync()
    await network.settle()
    for (const replica of [one, other]) expect(tagsAt(replica)).toEqual(["later"])
  })

  test("a token that is only in files is not shared, also if they differ", async () => {
    await using all = await cluster()
    const { network, replicas } = all
    const [one, other] = replicas
    const token = make("a")
    one.follow(fileOf(token))
    other.follow(fileOf({ ...token, tags: ["web"] }))
    await network.settle()
    expect([one.ids(), other.ids()]).toEqual([[], []])
    // A change while svc runs is newer than what the other file has had all the time.
    one.changed({ ...token, tags: ["db"] })
    await network.settle()
    expect(other.merge(fileOf(token)).tokens.get(token.id)?.tags).toEqual(["db"])
  })

  test("a refresh is over when the state was read, which may be later", async () => {
    await using all = await cluster()
    const { network, replicas } = all
    const [one, other] = replicas
    const token = make("a")
    one.created(token)
    await one.sync()
    await network.cut()
    let isOver = false
    const refreshed = other.refresh().then(() => {
      isOver = true
    })
    await other.sync()
    expect(isOver).toBe(false)
    await network.mend()
    await refreshed
    expect(other.ids()).toEqual([token.id])
  })
})
