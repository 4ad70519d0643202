/** Writes packages for Debian and Ubuntu. */
import { gzipSync } from "node:zlib"
import { ar, type PackedFile, READABLE, tar, textFile } from "./archive.ts"
import { CONFLICTING_PACKAGE, type Cpu, type Facts } from "./facts.ts"

/** Debian's name of each architecture, which images use too. */
export const DEB_ARCHITECTURES: Readonly<Record<Cpu, string>> = { x64: "amd64", arm64: "arm64" }

/** The oldest glibc with all functions that the programs call. A test reads it from the ELF headers. */
export const OLDEST_GLIBC = "2.17"

/** Returns the file name of a package. */
export const debName = (facts: Facts, cpu: Cpu): string =>
  `${facts.name}_${facts.version}_${DEB_ARCHITECTURES[cpu]}.deb`

/** Returns a package that installs `files`. */
export function deb(facts: Facts, cpu: Cpu, files: readonly PackedFile[]): Buffer {
  const size = files.reduce((total, { content }) => total + content.length, 0)
  const control = [
    `Package: ${facts.name}`,
    `Version: ${debVersion(facts)}`,
    `Architecture: ${DEB_ARCHITECTURES[cpu]}`,
    `Maintainer: ${facts.publisher}`,
    `Installed-Size: ${Math.ceil(size / 1024)}`,
    `Depends: libc6 (>= ${OLDEST_GLIBC})`,
    `Conflicts: ${CONFLICTING_PACKAGE}`,
    "Section: net",
    "Priority: optional",
    `Homepage: ${facts.repository}`,
    `Description: ${facts.description}`,
    "",
  ].join("\n")
  const sums = files.map(
    ({ path, content }) => `${new Bun.CryptoHasher("md5").update(content).digest("hex")}  ${path}\n`,
  )
  const packed = (path: string, contents: readonly PackedFile[]): PackedFile => ({
    path,
    mode: READABLE,
    content: gzipSync(tar(contents, facts.date, "./")),
  })
  return ar(
    [
      textFile("debian-binary", "2.0\n"),
      packed("control.tar.gz", [textFile("control", control), textFile("md5sums", sums.join(""))]),
      packed("data.tar.gz", files),
    ],
    facts.date,
  )
}

// ---

/** A tilde sorts before the release: 1.0.0~rc.1 is older than 1.0.0. */
const debVersion = ({ version }: Facts): string => version.replace("-", "~")
