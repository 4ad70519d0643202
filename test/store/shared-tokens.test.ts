import { expect, test } from "bun:test"
import { type ClientToken, createToken } from "../../src/store/client-tokens.ts"
import { createSharedTokens, type SharedTokens } from "../../src/store/shared-tokens.ts"
import { manualClock } from "../clock.ts"
import { type LocalNetwork, localNetwork } from "../shared-state.ts"

type Opened = SharedTokens & { readonly said: string[]; ids(filed?: readonly ClientToken[]): readonly string[] }

/** Opens the tokens of replicas that tell each other of changes. */
function cluster(...stateKeys: readonly (string | undefined)[]): {
  readonly network: LocalNetwork
  readonly replicas: readonly [Opened, Opened]
  open(stateKey?: string): Opened
} {
  const network = localNetwork(manualClock())
  const open = (stateKey?: string): Opened => {
    const said: string[] = []
    const state = network.open()
    const tokens = createSharedTokens({
      state,
      stateKey,
      tell: () => void state.publish("tokens").catch(() => undefined),
      onchange: () => void said.push("changed"),
      onunsealed: () => void said.push("unsealed"),
      onforeign: () => void said.push("foreign"),
    })
    state.onmessage(() => void tokens.sync())
    const ids = (filed: readonly ClientToken[] = []) => [
      ...tokens.merge(new Map(filed.map((token) => [token.id, token]))).keys(),
    ]
    return { ...tokens, said, ids }
  }
  return { network, replicas: [open(stateKeys[0]), open(stateKeys[1])], open }
}

const make = (name: string): ClientToken => createToken(name, { now: 0 }).token

test("a token that one replica creates or changes is that of all; a revoked one is refused, whatever a file says [cluster:tokens]", async () => {
  const { replicas, open } = cluster()
  const [one, other] = replicas
  const token = make("a")
  one.changed(token.id, token)
  await one.sync()
  await other.sync()
  expect(other.ids()).toEqual([token.id])
  const limited = { ...token, tags: ["web"] }
  other.changed(token.id, limited)
  await other.sync()
  await one.sync()
  expect(one.merge(new Map([[token.id, token]])).get(token.id)).toEqual(limited)
  other.changed(token.id, undefined)
  await other.sync()
  await one.sync()
  expect([one.ids([token]), other.ids([token])]).toEqual([[], []])
  // A file that has it again changes nothing, nor does a replica that starts with one.
  one.changed(token.id, token)
  const third = open()
  await third.sync()
  expect([one.ids([token]), third.ids([token])]).toEqual([[], []])
  expect(one.said).toEqual(["unsealed", "changed", "changed"])
})

test("what changes while the state is away holds here at once, and everywhere when it is back", async () => {
  const { network, replicas } = cluster()
  const [one, other] = replicas
  const [kept, created] = [make("kept"), make("created")]
  network.connected = false
  one.changed(created.id, created)
  other.changed(kept.id, undefined)
  await Promise.all(replicas.map((tokens) => tokens.sync()))
  expect(one.ids([kept])).toEqual([kept.id, created.id])
  expect(other.ids([kept])).toEqual([])
  network.connected = true
  for (const tokens of [...replicas, ...replicas]) await tokens.sync()
  for (const tokens of replicas) expect(tokens.ids([kept])).toEqual([created.id])
})

test("a state that has lost what it held gets it back from the replicas", async () => {
  const { network, replicas, open } = cluster()
  const [kept, revoked] = [make("kept"), make("revoked")]
  replicas[0].changed(kept.id, kept)
  replicas[0].changed(revoked.id, undefined)
  await replicas[0].sync()
  await network.open().remove("tokens")
  await replicas[0].sync()
  const third = open()
  await third.sync()
  expect(third.ids([revoked])).toEqual([kept.id])
})

test("with SVC_STATE_KEY nobody else creates a token in Redis [cluster:tokens:sealed]", async () => {
  const { network, replicas, open } = cluster("one secret", "one secret")
  const [one, other] = replicas
  const [token, forged] = [make("a"), make("forged")]
  one.changed(token.id, token)
  await one.sync()
  const state = network.open()
  const stored = (await state.read("tokens"))?.[token.id] ?? ""
  expect(stored).not.toContain(token.hash)
  await state.write("tokens", { [forged.id]: JSON.stringify(forged), [make("moved").id]: stored })
  await other.sync()
  expect(other.ids()).toEqual([token.id])
  const stranger = open("another secret")
  await stranger.sync()
  expect(stranger.ids()).toEqual([])
  expect([one.said, other.said, stranger.said].map((said) => said.includes("foreign"))).toEqual([false, true, true])
})
