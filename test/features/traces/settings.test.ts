import { expect, test } from "bun:test"
import { readExporterSettings, readInterval, readSampler } from "../../../src/features/traces/settings.ts"

const read = (env: Record<string, string>, endpoint?: string) => {
  const warnings: string[] = []
  const warn = (text: string) => void warnings.push(text)
  const sampling = readSampler(env, warn)
  return { ...readExporterSettings("TRACES", endpoint, env, "1", warn), sampling, warnings }
}
const BASE = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://a:4318" }

test("the endpoint for all signals gets a path, the one for traces is complete, and the flag comes first [traces:settings]", () => {
  expect(read(BASE).url).toBe("http://a:4318/v1/traces")
  expect(read({ OTEL_EXPORTER_OTLP_ENDPOINT: "https://a/base/" }).url).toBe("https://a/base/v1/traces")
  const traces = { ...BASE, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://b/own" }
  expect(read(traces).url).toBe("http://b/own")
  expect(read(traces, "http://c").url).toBe("http://c/v1/traces")
  expect(() => read({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "b:4318" })).toThrow(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be an http or https URL",
  )
})

test("all settings have defaults, and those for traces come first [traces:settings]", () => {
  expect(read(BASE)).toMatchObject({
    protocol: "http/protobuf",
    headers: {},
    timeout: 10_000,
    sampling: { sampler: "parentbased_always_on", ratio: 1 },
    resource: { "service.name": "svc", "service.version": "1" },
    warnings: [],
  })
  expect(
    read({
      ...BASE,
      OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Bearer%20x, b = 2",
      OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "500",
      OTEL_SERVICE_NAME: "mine",
      OTEL_RESOURCE_ATTRIBUTES: "service.name=other,a.b=c%2Cd",
      OTEL_TRACES_SAMPLER: "traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
    }),
  ).toMatchObject({
    protocol: "http/json",
    headers: { authorization: "Bearer x", b: "2" },
    timeout: 500,
    resource: { "service.name": "mine", "a.b": "c,d" },
    sampling: { sampler: "traceidratio", ratio: 0.25 },
    warnings: [],
  })
})

test("gRPC is refused; other wrong values are ignored with a warning that shows none of them [traces:settings]", () => {
  expect(() => read({ ...BASE, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" })).toThrow("svc does not speak gRPC")
  const { warnings, timeout, sampling, headers } = read({
    ...BASE,
    OTEL_EXPORTER_OTLP_TIMEOUT: "10s",
    OTEL_EXPORTER_OTLP_HEADERS: "secret-value,a=%",
    OTEL_TRACES_SAMPLER: "sometimes",
  })
  expect([timeout, sampling.sampler, headers]).toEqual([10_000, "parentbased_always_on", {}])
  expect(warnings).toHaveLength(4)
  expect(warnings.join()).not.toContain("secret-value")
  expect(read({ ...BASE, OTEL_TRACES_SAMPLER_ARG: "2" }).warnings).toHaveLength(1)
})

test("metrics have settings of their own, and are sent each minute unless a variable says otherwise [metrics:push]", () => {
  const env = { ...BASE, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://b/own", OTEL_EXPORTER_OTLP_METRICS_TIMEOUT: "7" }
  const metrics = (more: Record<string, string>) =>
    readExporterSettings("METRICS", undefined, { ...env, ...more }, "1", () => undefined)
  expect(metrics({})).toMatchObject({ url: "http://a:4318/v1/metrics", timeout: 7 })
  expect(metrics({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://c/m" }).url).toBe("http://c/m")
  const warnings: string[] = []
  const interval = (text: string) => readInterval({ OTEL_METRIC_EXPORT_INTERVAL: text }, (one) => warnings.push(one))
  expect([interval(""), interval("500"), interval("soon")]).toEqual([60_000, 500, 60_000])
  expect(warnings).toEqual([
    "OTEL_METRIC_EXPORT_INTERVAL is not used: it must be a number of milliseconds from 1 to 9999999",
  ])
})
