/** Finds, creates and revokes the token in the entry that connects a client to svc. */

import { followChange } from "../commands/follow.ts"
import type { ClientName } from "../features/connect/clients.ts"
import { systemClock } from "../lib/clock.ts"
import { counted } from "../lib/text.ts"
import type { LocalConfiguration } from "../serve/local-configuration.ts"
import { createToken, findToken } from "../store/client-tokens.ts"
import { changeTokens, tokensOf } from "./auth-token.ts"

/** Returns the token of svc in an entry of a client. */
export const tokenIn = (entry: unknown): string | undefined =>
  /Bearer (svc_[0-9a-f]{12}_[\w-]{43})/.exec(JSON.stringify(entry) ?? "")?.[1]

/** Whether svc accepts a token now. */
export const isAccepted = (context: LocalConfiguration, token: string): boolean =>
  findToken(token, tokensOf(context), systemClock.now()) !== undefined

/** Returns a unique name for a new token of a client: a client may be connected twice, for example in two scopes. */
export function clientTokenName(context: LocalConfiguration, client: ClientName): string {
  const taken = new Set([...tokensOf(context).values()].map((one) => one.name))
  let unique: string = client
  for (let number = 2; taken.has(unique); number++) unique = `${client}-${number}`
  return unique
}

/** Creates a token for a client. Returns its text. */
export async function createClientToken(
  context: LocalConfiguration,
  client: ClientName,
  args: Readonly<Record<string, unknown>>,
): Promise<string> {
  const { token, text } = createToken(clientTokenName(context, client), { now: systemClock.now() })
  await changeTokens(context, (tokens) => new Map([...tokens, [token.id, token]]))
  await followChange(context, args, `created token ${token.id}`)
  return text
}

/** Revokes the tokens that a client no longer has. */
export async function revokeTokens(
  context: LocalConfiguration,
  args: Readonly<Record<string, unknown>>,
  texts: readonly string[],
): Promise<void> {
  const ids = new Set(texts.map((text) => text.split("_")[1]))
  if (ids.size === 0) return
  await changeTokens(context, (tokens) => new Map([...tokens].filter(([id]) => !ids.has(id))))
  await followChange(context, args, `revoked ${counted(ids.size, "token")}`)
}
