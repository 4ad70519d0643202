/** Writes the bill of materials: CycloneDX 1.6, JSON. */
import { type Component, idOf } from "./components.ts"
import type { Facts } from "./facts.ts"

/** Returns the document. `bun` is the version of Bun that is compiled in, `direct` names the packages that svc itself depends on. */
export function sbomOf(facts: Facts, components: readonly Component[], direct: readonly string[], bun: string): string {
  const own = purlOf(facts.name, facts.version)
  const runtime = `pkg:github/oven-sh/bun@bun-v${bun}`
  const refs = new Map(components.map((component) => [idOf(component), purlOf(component.name, component.version)]))
  const refsOf = (ids: readonly string[]) => ids.flatMap((id) => refs.get(id) ?? [])
  const used = components.filter(({ name }) => direct.includes(name)).map(idOf)
  const document = {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(`${facts.repository} ${facts.version}`)}`,
    version: 1,
    metadata: {
      timestamp: facts.date.toISOString(),
      component: {
        type: "application",
        "bom-ref": own,
        name: facts.name,
        version: facts.version,
        description: facts.description,
        licenses: [{ license: { id: facts.license } }],
        purl: own,
        externalReferences: [{ type: "vcs", url: facts.repository }],
      },
    },
    components: [
      ...components.map((component) => ({
        type: "library",
        "bom-ref": refs.get(idOf(component)),
        name: component.name,
        version: component.version,
        hashes: [{ alg: "SHA-512", content: hexOf(component.integrity) }],
        licenses: [{ license: { id: component.license } }],
        purl: refs.get(idOf(component)),
      })),
      {
        type: "platform",
        "bom-ref": runtime,
        name: "bun",
        version: bun,
        licenses: [{ license: { id: "MIT" } }],
        purl: runtime,
      },
    ],
    dependencies: [
      { ref: own, dependsOn: [...refsOf(used), runtime] },
      ...components.map((component) => ({ ref: refs.get(idOf(component)), dependsOn: refsOf(component.dependencies) })),
      { ref: runtime },
    ],
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

// ---

const purlOf = (name: string, version: string): string => `pkg:npm/${name.replace("@", "%40")}@${version}`

const hexOf = (integrity: string): string => Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex")

/** Returns a UUID (version 8) made from a text, so that a version has the same document again. */
function uuidOf(text: string): string {
  const hex = new Bun.CryptoHasher("sha256").update(text).digest("hex")
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    "-",
  )
}
