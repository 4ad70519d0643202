/**
 * The settings of traces and of metrics that are sent: the options of svc, and the variables of OpenTelemetry.
 * https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
import type { Environment } from "../../config/environment.ts"
import { usageError } from "../../lib/command-line.ts"
import { cutText } from "../../lib/text.ts"
import { SAMPLERS, type SamplerSetting } from "./sampler.ts"

/** A signal, as the variables call it. */
export type Signal = "TRACES" | "METRICS"

/** Where a signal is sent, and how. */
export type ExporterSettings = {
  readonly url: string
  readonly protocol: "http/protobuf" | "http/json"
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds in which the receiver must answer. */
  readonly timeout: number
  /** Attributes of all that is sent: the name and the version of the service, and others. */
  readonly resource: Readonly<Record<string, string>>
}

/**
 * Reads the settings of a signal. `endpoint` is the value of `--otlp-endpoint`. Throws a RequestError (usage) for an address or a
 * protocol that cannot work. Any other wrong value is ignored with a warning, as OpenTelemetry requires: the variables are often
 * set for many programs at once.
 */
export function readExporterSettings(
  signal: Signal,
  endpoint: string | undefined,
  env: Environment,
  version: string,
  warn: (text: string) => void,
): ExporterSettings {
  const of = (name: string) => specific(signal, env, name)
  return {
    url: readUrl(signal, endpoint, env),
    protocol: readProtocol(of("PROTOCOL")),
    headers: Object.fromEntries(
      readPairs(of("HEADERS"), warn).map(([name, value]) => [name.toLowerCase(), value] as const),
    ),
    timeout: readMilliseconds(of("TIMEOUT"), DEFAULT_TIMEOUT_MS, warn),
    resource: {
      "service.name": "svc",
      "service.version": version,
      ...Object.fromEntries(readPairs({ name: "OTEL_RESOURCE_ATTRIBUTES", value: env.OTEL_RESOURCE_ATTRIBUTES }, warn)),
      ...(env.OTEL_SERVICE_NAME ? { "service.name": env.OTEL_SERVICE_NAME } : {}),
    },
  }
}

/** Reads which traces are recorded. */
export function readSampler(env: Environment, warn: (text: string) => void): SamplerSetting {
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

/** Reads how often metrics are sent, in milliseconds. */
export const readInterval = (env: Environment, warn: (text: string) => void): number =>
  readMilliseconds({ name: INTERVAL, value: env[INTERVAL] || undefined }, DEFAULT_INTERVAL_MS, warn)

// ---

/** A variable, and its value unless that is empty. */
type Setting = { readonly name: string; readonly value: string | undefined }

/** Returns the setting for a signal, or else the one for all signals. */
function specific(signal: Signal, env: Environment, name: string): Setting {
  const [own, all] = [`OTEL_EXPORTER_OTLP_${signal}_${name}`, `OTEL_EXPORTER_OTLP_${name}`]
  return env[own] ? { name: own, value: env[own] } : { name: all, value: env[all] || undefined }
}

/** The address for all signals gets the path of the signal; the address for one signal is used as it is. */
function readUrl(signal: Signal, endpoint: string | undefined, env: Environment): string {
  const own = endpoint === undefined ? env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`] : undefined
  const text = endpoint ?? (own || env.OTEL_EXPORTER_OTLP_ENDPOINT || "")
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const name = endpoint !== undefined ? "--otlp-endpoint" : specific(signal, env, "ENDPOINT").name
    throw usageError(`${name} must be an http or https URL, such as http://localhost:4318`)
  }
  if (!own) url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/${signal.toLowerCase()}`
  return url.href
}

function readProtocol({ name, value = "http/protobuf" }: Setting): ExporterSettings["protocol"] {
  if (value === "http/protobuf" || value === "http/json") return value
  const why = value === "grpc" ? "svc does not speak gRPC" : `svc does not know ${cutText(value, 40)}`
  throw usageError(
    `${name}: ${why}; set it to http/protobuf or http/json, and the endpoint to the receiver's HTTP port, usually 4318`,
  )
}

function readMilliseconds({ name, value }: Setting, otherwise: number, warn: (text: string) => void): number {
  if (value === undefined) return otherwise
  if (/^[1-9][0-9]{0,6}$/.test(value)) return Number(value)
  warn(`${name} is not used: it must be a number of milliseconds from 1 to 9999999`)
  return otherwise
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
const INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
const DEFAULT_INTERVAL_MS = 60_000
