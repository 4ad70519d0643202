/**
 * The settings of traces: the options of svc, and the variables of OpenTelemetry.
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
import type { Environment } from "../../config/environment.ts"
import { usageError } from "../../lib/command-line.ts"
import { cutText } from "../../lib/text.ts"
import { SAMPLERS, type SamplerSetting } from "./sampler.ts"

export type TraceSettings = {
  /** Where spans are sent. */
  readonly url: string
  readonly protocol: "http/protobuf" | "http/json"
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds in which the receiver must answer. */
  readonly timeout: number
  readonly sampling: SamplerSetting
  /** Attributes of all spans together: the name and the version of the service, and others. */
  readonly resource: Readonly<Record<string, string>>
}

/**
 * Reads the settings. `endpoint` is the value of `--otlp-endpoint`. Throws a RequestError (usage) for an address or a protocol
 * that cannot work. Any other wrong value is ignored with a warning, as OpenTelemetry requires: the variables are often set for
 * many programs at once.
 */
export function readTraceSettings(
  endpoint: string | undefined,
  env: Environment,
  version: string,
  warn: (text: string) => void,
): TraceSettings {
  const of = (name: string) => specific(env, name)
  const { sampler, ratio } = readSampler(env, warn)
  return {
    url: readUrl(endpoint, env),
    protocol: readProtocol(of("PROTOCOL")),
    headers: Object.fromEntries(
      readPairs(of("HEADERS"), warn).map(([name, value]) => [name.toLowerCase(), value] as const),
    ),
    timeout: readTimeout(of("TIMEOUT"), warn),
    sampling: { sampler, ratio },
    resource: {
      "service.name": "svc",
      "service.version": version,
      ...Object.fromEntries(readPairs({ name: "OTEL_RESOURCE_ATTRIBUTES", value: env.OTEL_RESOURCE_ATTRIBUTES }, warn)),
      ...(env.OTEL_SERVICE_NAME ? { "service.name": env.OTEL_SERVICE_NAME } : {}),
    },
  }
}

// ---

/** A variable, and its value unless that is empty. */
type Setting = { readonly name: string; readonly value: string | undefined }

/** Returns the setting for traces, or else the one for all signals. */
function specific(env: Environment, name: string): Setting {
  const [traces, all] = [`OTEL_EXPORTER_OTLP_TRACES_${name}`, `OTEL_EXPORTER_OTLP_${name}`]
  return env[traces] ? { name: traces, value: env[traces] } : { name: all, value: env[all] || undefined }
}

/** The address for all signals gets the path of traces; the address for traces is used as it is. */
function readUrl(endpoint: string | undefined, env: Environment): string {
  const traces = endpoint === undefined ? env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT : undefined
  const text = endpoint ?? (traces || env.OTEL_EXPORTER_OTLP_ENDPOINT || "")
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const name = endpoint !== undefined ? "--otlp-endpoint" : specific(env, "ENDPOINT").name
    throw usageError(`${name} must be an http or https URL, such as http://localhost:4318`)
  }
  if (!traces) url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/traces`
  return url.href
}

function readProtocol({ name, value = "http/protobuf" }: Setting): TraceSettings["protocol"] {
  if (value === "http/protobuf" || value === "http/json") return value
  const why = value === "grpc" ? "svc does not speak gRPC" : `svc does not know ${cutText(value, 40)}`
  throw usageError(
    `${name}: ${why}; set it to http/protobuf or http/json, and the endpoint to the receiver's HTTP port, usually 4318`,
  )
}

function readTimeout({ name, value }: Setting, warn: (text: string) => void): number {
  if (value === undefined) return DEFAULT_TIMEOUT_MS
  if (/^[1-9][0-9]{0,6}$/.test(value)) return Number(value)
  warn(`${name} is not used: it must be a number of milliseconds from 1 to 9999999`)
  return DEFAULT_TIMEOUT_MS
}

function readSampler(env: Environment, warn: (text: string) => void): SamplerSetting {
  const name = env.OTEL_TRACES_SAMPLER || SAMPLERS[0]
  const sampler = SAMPLERS.find((one) => one === name)
  if (sampler === undefined) {
    warn(`OTEL_TRACES_SAMPLER is not used: it must be one of ${SAMPLERS.join(", ")}`)
    return { sampler: SAMPLERS[0], ratio: 1 }
  }
  const text = env.OTEL_TRACES_SAMPLER_ARG
  const ratio = text ? Number(text) : 1
  if (ratio >= 0 && ratio <= 1) return { sampler, ratio }
  warn("OTEL_TRACES_SAMPLER_ARG is not used: it must be a number from 0 to 1")
  return { sampler, ratio: 1 }
}

/** Reads `name=value,…` with percent-encoded values. https://www.w3.org/TR/baggage/ */
function readPairs({ name, value = "" }: Setting, warn: (text: string) => void): (readonly [string, string])[] {
  return value.split(",").flatMap((pair) => {
    if (pair.trim() === "") return []
    const at = pair.indexOf("=")
    const key = pair.slice(0, at).trim()
    try {
      if (at > 0 && key !== "")
        return [[decodeURIComponent(key), decodeURIComponent(pair.slice(at + 1).trim())] as const]
    } catch {
      // Reported below, without the value, which may be a credential.
    }
    warn(`a part of ${name} is not used: each must be NAME=VALUE, percent-encoded`)
    return []
  })
}

const DEFAULT_TIMEOUT_MS = 10_000
