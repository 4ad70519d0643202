/** The manifests for Kubernetes, checked by the schemas and the types of its API. */
import { describe, expect, test } from "bun:test"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Deployment } from "kubernetes-models/apps/v1"
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2"
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1"
import { PodDisruptionBudget } from "kubernetes-models/policy/v1"
import { ConfigMap, PersistentVolumeClaim, Service } from "kubernetes-models/v1"
import { containerFiles } from "../../scripts/release/container.ts"
import type { Facts } from "../../scripts/release/facts.ts"
import { isHealthPath } from "../../src/serve/health.ts"
import { ROOT } from "../e2e/harness.ts"

const FILES = containerFiles({ owner: "own", name: "svc", version: "1.2.3" } as Facts)
const KINDS = {
  ConfigMap: [ConfigMap, "kubernetes-models/v1"],
  PersistentVolumeClaim: [PersistentVolumeClaim, "kubernetes-models/v1"],
  Service: [Service, "kubernetes-models/v1"],
  Deployment: [Deployment, "kubernetes-models/apps/v1"],
  HorizontalPodAutoscaler: [HorizontalPodAutoscaler, "kubernetes-models/autoscaling/v2"],
  PodDisruptionBudget: [PodDisruptionBudget, "kubernetes-models/policy/v1"],
  NetworkPolicy: [NetworkPolicy, "kubernetes-models/networking.k8s.io/v1"],
} as const
/** The parts of specifications that the tests read. */
type Spec = {
  readonly template: {
    readonly spec: { readonly terminationGracePeriodSeconds: number; readonly containers: readonly [Container] }
  }
  readonly metrics: readonly [{ readonly pods: { readonly metric: { readonly name: string } } }]
}
type Probe = { readonly httpGet: { readonly path: string } }
type Container = { readonly args: readonly string[] } & Readonly<
  Record<"livenessProbe" | "readinessProbe" | "startupProbe", Probe>
>
type Manifest = { readonly kind: keyof typeof KINDS; readonly [member: string]: unknown }

const read = (name: string) => Bun.YAML.parse(FILES.get(name) ?? "") as readonly Manifest[]

/** Throws if a manifest breaks its schema. */
function validate(manifest: Manifest): void {
  const [Model] = KINDS[manifest.kind]
  const model = new (Model as unknown as new (data: object) => { validate(): void; apiVersion: string })(manifest)
  expect(manifest.apiVersion).toBe(model.apiVersion)
  model.validate()
}

describe("manifests for Kubernetes", () => {
  test.each(["kubernetes.yaml", "kubernetes-replicas.yaml"])("%s follows the schemas [release:kubernetes]", (name) => {
    const manifests = read(name)
    for (const manifest of manifests) validate(manifest)
    const names = new Set(manifests.map(({ metadata }) => (metadata as { name: string }).name))
    expect([...names]).toEqual(["svc"])
    const [deployment] = manifests.filter(({ kind }) => kind === "Deployment")
    expect(() => validate({ ...(deployment as Manifest), spec: { replicas: "three" } })).toThrow()
  })

  test("no manifest has a key that Kubernetes does not know [release:kubernetes]", () => {
    const folder = join(ROOT, "node_modules/.cache/kubernetes-check")
    mkdirSync(folder, { recursive: true })
    const check = (manifests: readonly Manifest[]) => {
      const lines = manifests.map(
        (manifest, at) =>
          `import type { I${manifest.kind} as T${at} } from "${KINDS[manifest.kind][1]}"\nexport const m${at}: T${at} = ${JSON.stringify(manifest)}`,
      )
      writeFileSync(join(folder, "check.ts"), lines.join("\n"))
      const flags = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]
      const { stdout } = Bun.spawnSync(["bunx", "tsc", ...flags, "--types", "", "--ignoreConfig", "check.ts"], {
        cwd: folder,
      })
      return stdout.toString()
    }
    const manifests = [...read("kubernetes.yaml"), ...read("kubernetes-replicas.yaml")]
    expect(check(manifests)).toBe("")
    const [deployment] = manifests.filter(({ kind }) => kind === "Deployment")
    const misspelt = { ...(deployment as Manifest), spec: { ...(deployment?.spec as object), replcas: 3 } }
    expect(check([misspelt])).toContain("replcas")
    rmSync(folder, { recursive: true })
  }, 60_000)

  test("replicas have time to drain, probes ask health paths, and the autoscaler reads a metric that svc has [release:kubernetes]", async () => {
    const manifests = read("kubernetes-replicas.yaml")
    const find = (kind: string) => manifests.find((one) => one.kind === kind)?.spec as unknown as Spec
    const pod = find("Deployment").template.spec
    const [container] = pod.containers
    const seconds = (flag: string) => Number.parseInt(container.args[container.args.indexOf(flag) + 1] ?? "", 10)
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(seconds("--drain-delay") + seconds("--shutdown-grace"))
    for (const probe of ["livenessProbe", "readinessProbe", "startupProbe"] as const)
      expect(isHealthPath(container[probe].httpGet.path)).toBe(true)
    const metrics = await Bun.file(join(ROOT, "docs/operations.md")).text()
    expect(metrics).toContain(`| \`${find("HorizontalPodAutoscaler").metrics[0].pods.metric.name}\` |`)
  })
})
