/** Writes what package managers need to install the files of a release: Homebrew, Scoop and winget. */
import { CONFLICTING_PACKAGE, type Facts, PLATFORMS, type Platform } from "./facts.ts"

/** Returns the SHA-256 of a file of the release, in hexadecimal. */
export type SumOf = (file: string) => string

/** Returns a formula of Homebrew, for macOS and Linux. */
export function homebrewFormula(facts: Facts, sumOf: SumOf): string {
  const { name, description, repository, version, license, downloads } = facts
  const source = (os: Platform["os"], cpu: Platform["cpu"]) => {
    const file = PLATFORMS.find((one) => one.os === os && one.cpu === cpu && one.libc !== "musl")?.file ?? ""
    return `    on_${cpu === "arm64" ? "arm" : "intel"} do
      url "${downloads}/${file}"
      sha256 "${sumOf(file)}"
    end`
  }
  return `class ${name[0]?.toUpperCase()}${name.slice(1)} < Formula
  desc "${description}"
  homepage "${repository}"
  version "${version}"
  license "${license}"

  on_macos do
${source("darwin", "arm64")}
${source("darwin", "x64")}
  end

  on_linux do
${source("linux", "arm64")}
${source("linux", "x64")}
  end

  conflicts_with "${CONFLICTING_PACKAGE}", because: "both install an \`${name}\` executable"

  def install
    bin.install Dir["${name}-*"].first => "${name}"
    generate_completions_from_executable(bin/"${name}", "completion")
  end

  service do
    run [opt_bin/"${name}", "serve"]
    keep_alive true
    log_path var/"log/${name}.log"
    error_log_path var/"log/${name}.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/${name} --version")
  end
end
`
}

/** Returns a manifest of Scoop. */
export function scoopManifest(facts: Facts, sumOf: SumOf): string {
  const { name, version, description, repository, license } = facts
  const url = (tag: string) => `${repository}/releases/download/v${tag}/${WINDOWS.file}#/${name}.exe`
  const manifest = {
    version,
    description,
    homepage: repository,
    license,
    architecture: { "64bit": { url: url(version), hash: sumOf(WINDOWS.file) } },
    bin: `${name}.exe`,
    checkver: { github: repository },
    autoupdate: {
      architecture: { "64bit": { url: url("$version"), hash: { url: "$baseurl/SHA256SUMS" } } },
    },
  }
  return `${JSON.stringify(manifest, null, 4)}\n`
}

/** Returns the three manifests of winget by file name. */
export function wingetManifests(facts: Facts, sumOf: SumOf): ReadonlyMap<string, string> {
  const { name, version, description, repository, license, publisher, owner, downloads } = facts
  const identifier = `${owner}.${name}`
  const manifest = (type: string, file: string, fields: Readonly<Record<string, unknown>>) => {
    const lines = Object.entries({
      PackageIdentifier: identifier,
      PackageVersion: version,
      ...fields,
      ManifestType: type,
      ManifestVersion: WINGET_SCHEMA,
    }).map(([key, value]) => `${key}: ${JSON.stringify(value)}`)
    const schema = `# yaml-language-server: $schema=https://aka.ms/winget-manifest.${type}.${WINGET_SCHEMA}.schema.json`
    return [`${identifier}${file}.yaml`, `${schema}\n${lines.join("\n")}\n`] as const
  }
  return new Map([
    manifest("version", "", { DefaultLocale: "en-US" }),
    manifest("installer", ".installer", {
      InstallerType: "portable",
      Commands: [name],
      ReleaseDate: facts.date.toISOString().slice(0, 10),
      Installers: [
        {
          Architecture: "x64",
          InstallerUrl: `${downloads}/${WINDOWS.file}`,
          InstallerSha256: sumOf(WINDOWS.file).toUpperCase(),
        },
      ],
    }),
    manifest("defaultLocale", ".locale.en-US", {
      PackageLocale: "en-US",
      Publisher: publisher,
      PackageName: name,
      PackageUrl: repository,
      License: license,
      ShortDescription: description,
    }),
  ])
}

// ---

const WINGET_SCHEMA = "1.6.0"
const WINDOWS = windowsOf(PLATFORMS)

function windowsOf(platforms: readonly Platform[]): Platform {
  const found = platforms.find(({ os }) => os === "windows")
  if (found === undefined) throw new Error("no platform is Windows")
  return found
}
