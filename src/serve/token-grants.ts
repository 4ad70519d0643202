/** What a token grants: one of svc's own by its entry, an issuer's by its scopes or by the groups of its holder. */
import type { Preset } from "../config/presets.ts"
import type { ClientToken } from "../store/client-tokens.ts"
import { ADMIN_SCOPE, PRESET_SCOPE, TAG_SCOPE } from "./challenge.ts"
import type { Principal } from "./principal.ts"
import type { TokenClaims } from "./token-issuer.ts"

/** Returns the principal of one of svc's own tokens. */
export const principalOfToken = ({
  id,
  tags,
  presets,
  metricsOnly,
  tools,
  resultBudget,
  expires,
}: ClientToken): Principal => ({
  name: `token ${id}`,
  // Tags that are added to the file have no effect.
  tags: metricsOnly === true ? [] : tagsBeside(presets, tags),
  ...(presets === undefined ? {} : { presets }),
  metricsOnly,
  untagged: false,
  admin: tags === undefined && presets === undefined && metricsOnly !== true,
  scoped: false,
  until: expires === undefined ? undefined : Date.parse(expires),
  tools,
  resultBudget,
})

/**
 * Returns the principal of an issuer's token. The groups of the holder come from a directory, so they decide alone: a client chooses
 * which scopes it requests.
 */
export function principalOfClaims(
  { holder, scopes, groups, until }: TokenClaims,
  issuer: string,
  byScope: boolean,
  known: ReadonlyMap<string, Preset>,
): Principal {
  const admin = scopes.includes(ADMIN_SCOPE)
  const named = groups ?? scopes
  const tags = namesAfter(TAG_SCOPE, named)
  // A comma separates the names of presets. No preset has such a name, so it selects nothing.
  const ofScopes = namesAfter(PRESET_SCOPE, named).map((name) => name.replaceAll(",", "\0"))
  const presets = [...ofScopes, ...(groups === undefined ? [] : presetsOfGroups(groups, known))]
  const isBound = !admin && presets.length > 0
  const isStranger = groups !== undefined && !admin && tags.length + presets.length === 0
  const isWhole = admin || (groups === undefined ? !byScope : tags.length === 0)
  const granted = isWhole ? undefined : tagsBeside(isBound ? presets : undefined, tags)
  return {
    ...(isBound ? { presets: [...new Set(presets)] } : {}),
    name: `${holder.kind} ${holder.id} of ${issuer.replace(/\/$/, "")}`,
    tags: isStranger ? [] : granted,
    untagged: !isStranger,
    admin,
    scoped: groups === undefined,
    until,
  }
}

// ---

/** Returns the tags of a token. One with presets and no tags is stored with empty tags, so that an older svc gives it access to no server. */
const tagsBeside = (presets: ClientToken["presets"], tags: ClientToken["tags"]): ClientToken["tags"] =>
  presets !== undefined && tags?.length === 0 ? undefined : tags

/** Returns what follows a prefix in the texts that begin with it. */
const namesAfter = (prefix: string, texts: readonly string[]): readonly string[] =>
  texts.flatMap((text) => (text.startsWith(prefix) ? [text.slice(prefix.length)] : []))

/** Returns the names of the presets that one of these groups is bound to. */
const presetsOfGroups = (groups: readonly string[], presets: ReadonlyMap<string, Preset>): readonly string[] =>
  [...presets].flatMap(([name, preset]) => (preset.groups?.some((group) => groups.includes(group)) ? [name] : []))
