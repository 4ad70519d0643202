/**
 * The conformance servers of the TypeScript SDK, one of each generation. No package holds them: the first run downloads
 * their source at a fixed commit, checks its digest, and installs what it imports.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ROOT } from "../e2e/harness.ts"

export type ReferenceServer = "sdk-1x" | "sdk-2x"

const CACHE = join(ROOT, "node_modules", ".cache", "conformance-servers")
const PATH = "test/conformance/src/everythingServer.ts"
const SOURCES = {
  "sdk-1x": {
    commit: "2d889f2b329e46680ec9bdd565de4616c497825a",
    sha256: "7b576322ab4e3a0f184dde09488aaa33504736a26c7ced173c9b927876daebfe",
  },
  "sdk-2x": {
    commit: "3924de99df834302d89f5997a1b64ca268282284",
    sha256: "3a94417774fa20b17971e8162f9865b1cefd2650c7d88fdcd17f971d91213852",
  },
} as const satisfies Record<ReferenceServer, { commit: string; sha256: string }>

/** What the sources import. The SDKs' versions are those of the repository's own package.json. */
const PACKAGES = {
  "@modelcontextprotocol/express": "2.0.2",
  "@modelcontextprotocol/node": "2.1.2",
  cors: "2.8.6",
  express: "5.3.0",
  zod: "4.6.7",
}

/** Returns the file of each server. Each listens on the port that `PORT` names. Throws if a source is not reachable. */
export async function referenceServers(): Promise<Readonly<Record<ReferenceServer, string>>> {
  const files = { "sdk-1x": join(CACHE, "sdk-1x.ts"), "sdk-2x": join(CACHE, "sdk-2x.ts") }
  mkdirSync(CACHE, { recursive: true })
  for (const name of ["sdk-1x", "sdk-2x"] as const) {
    const { commit, sha256 } = SOURCES[name]
    const kept = join(CACHE, `${commit}.txt`)
    if (!existsSync(kept)) {
      const url = `https://raw.githubusercontent.com/modelcontextprotocol/typescript-sdk/${commit}/${PATH}`
      const response = await fetch(url).catch((cause: unknown) => {
        throw new Error(`could not download ${url}; put the file at ${kept}`, { cause })
      })
      if (!response.ok) throw new Error(`${url} answered ${response.status}; put the file at ${kept}`)
      writeFileSync(kept, await response.text())
    }
    const source = readFileSync(kept, "utf8")
    const digest = new Bun.CryptoHasher("sha256").update(source).digest("hex")
    if (digest !== sha256) throw new Error(`${kept} has the digest ${digest}, not ${sha256}: delete it`)
    writeFileSync(files[name], source.replaceAll("../../../src/", "@modelcontextprotocol/sdk/"))
  }
  const { devDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    devDependencies: Record<string, string>
  }
  const sdks = ["@modelcontextprotocol/sdk", "@modelcontextprotocol/server"]
  const dependencies = { ...Object.fromEntries(sdks.map((name) => [name, devDependencies[name]])), ...PACKAGES }
  writeFileSync(join(CACHE, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }))
  const install = Bun.spawn({ cmd: ["bun", "install", "--silent"], cwd: CACHE, stdin: "ignore" })
  if ((await install.exited) !== 0) throw new Error(`bun install failed in ${CACHE}`)
  return files
}
