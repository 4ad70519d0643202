/**
 * Adapts params and error codes between the eras: adds or removes members that only one era has in a request to a backend,
 * and replaces the code of an error on its way back.
 */

import { RPC_CODE } from "../lib/errors.ts"
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

/**
 * Returns params for the backend's era: a request to a modern backend has version and client in `_meta`. A call that asks for a
 * task of 2025 is an ordinary call there: its client could not use the task.
 */
export function adaptParams(given: Params, client: Client, era: Era): Params {
  if (client.era === era) return given
  const params = given.task === undefined ? given : withoutTask(given)
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

function withoutTask({ task: _, ...params }: Params): Params {
  return params
}

/**
 * Returns the code of an error for an era: each era has its own code for "resource not found". server: Resources, Error
 * Handling.
 */
export function adaptCode(method: string, code: number, data: unknown, era: Era): number {
  if (method !== "resources/read" || !isObject(data) || typeof data.uri !== "string") return code
  if (code !== RPC_CODE.invalidParams && code !== LEGACY_NOT_FOUND) return code
  return era === "modern" ? RPC_CODE.invalidParams : LEGACY_NOT_FOUND
}

// ---

/** 2025-11-25: Resources, Error Handling. */
const LEGACY_NOT_FOUND = -32002

/** Returns a legacy client's capabilities without tasks, which 2026-07-28 has in another form. */
function modernCapabilities({ tasks: _tasks, ...capabilities }: Params): Params {
  if (!isObject(capabilities.extensions)) return capabilities
  const { [TASKS_EXTENSION]: _extension, ...extensions } = capabilities.extensions
  return { ...capabilities, extensions }
}
