/**
 * What one era lacks, put in or taken out: the params of a request on its way to a backend of the other era, and the code
 * of an error on its way back.
 */
import {
  type Era,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_VERSION,
  MODERN_VERSION,
  TASKS_EXTENSION,
} from "../wire/era.ts"
import { isObject, metaOf, type Params } from "../wire/message.ts"
import type { Client } from "./client.ts"

/** Params as the backend's era has them: a request of a modern backend carries version and client in `_meta`. */
export function adaptParams(params: Params, client: Client, era: Era): Params {
  if (client.era === era) return params
  const meta = metaOf(params)
  if (era === "modern")
    return {
      ...params,
      _meta: {
        ...meta,
        [META_VERSION]: MODERN_VERSION,
        [META_CLIENT_INFO]: client.info,
        [META_CLIENT_CAPABILITIES]: modernCapabilities(client.capabilities),
        ...(client.logLevel === undefined ? {} : { [META_LOG_LEVEL]: client.logLevel }),
      },
    }
  if (meta === undefined) return params
  const {
    [META_VERSION]: _v,
    [META_CLIENT_INFO]: _i,
    [META_CLIENT_CAPABILITIES]: _c,
    [META_LOG_LEVEL]: _l,
    ...rest
  } = meta
  if (Object.keys(rest).length > 0) return { ...params, _meta: rest }
  const { _meta, ...bare } = params
  return bare
}

/** "Resource not found" has another code in each era. server: Resources, Error Handling. */
export function adaptCode(method: string, code: number, data: unknown, era: Era): number {
  if (method !== "resources/read" || !isObject(data) || typeof data.uri !== "string") return code
  if (code !== INVALID_PARAMS && code !== LEGACY_NOT_FOUND) return code
  return era === "modern" ? INVALID_PARAMS : LEGACY_NOT_FOUND
}

// ---

const INVALID_PARAMS = -32602
const LEGACY_NOT_FOUND = -32002

/** What a legacy client can do in the words of 2026-07-28, which has tasks in another form. */
function modernCapabilities({ tasks: _tasks, ...capabilities }: Params): Params {
  if (!isObject(capabilities.extensions)) return capabilities
  const { [TASKS_EXTENSION]: _extension, ...extensions } = capabilities.extensions
  return { ...capabilities, extensions }
}
