/** Builds RPM packages with `rpmbuild`. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { type PackedFile, seconds } from "./archive.ts"
import { OLDEST_GLIBC } from "./deb.ts"
import { CONFLICTING_PACKAGE, type Cpu, type Facts } from "./facts.ts"

/** Returns the file name of a package. */
export const rpmName = (facts: Facts, cpu: Cpu): string =>
  `${facts.name}-${facts.version}-${RPM_RELEASE}.${RPM_ARCHITECTURES[cpu]}.rpm`

/** Throws an error that says what to install if `rpmbuild` is missing. */
export function checkRpmbuild(): void {
  if (Bun.which("rpmbuild", { PATH: process.env.PATH ?? "" }) === null)
    throw new Error(
      "rpmbuild is not in PATH: install the package rpm (Debian, Ubuntu, Homebrew) or rpm-build (Fedora), and run this again",
    )
}

/** Returns a package that installs `files`. Throws an error with the output of `rpmbuild` if it fails. */
export function rpm(facts: Facts, cpu: Cpu, files: readonly PackedFile[]): Buffer {
  const folder = mkdtempSync(join(tmpdir(), "svc-rpm-"))
  try {
    for (const { path, content } of files) {
      const file = join(folder, "files", path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, content)
    }
    writeFileSync(join(folder, "package.spec"), specOf(facts, files))
    const macros = Object.entries(macrosOf(folder)).flatMap(([name, value]) => ["--define", `${name} ${value}`])
    const { exitCode, stderr } = Bun.spawnSync(
      ["rpmbuild", "-bb", "--target", `${RPM_ARCHITECTURES[cpu]}-linux`, ...macros, "package.spec"],
      {
        cwd: folder,
        // A HOME without .rpmmacros: the settings of a user must not change the package.
        env: { PATH: process.env.PATH, HOME: folder, LC_ALL: "C", SOURCE_DATE_EPOCH: String(seconds(facts.date)) },
      },
    )
    if (exitCode !== 0) throw new Error(`rpmbuild exited with ${exitCode}: ${stderr.toString().trim()}`)
    return readFileSync(join(folder, PACKAGE))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

// ---

/** RPM's name of each architecture. */
const RPM_ARCHITECTURES: Readonly<Record<Cpu, string>> = { x64: "x86_64", arm64: "aarch64" }
const RPM_RELEASE = "1"
const PACKAGE = "package.rpm"

/** Returns the macros that keep all work in `folder` and make the same bytes of the same files on every machine. */
const macrosOf = (folder: string): Readonly<Record<string, string>> => ({
  _topdir: folder,
  _sourcedir: folder,
  _rpmdir: folder,
  _rpmfilename: PACKAGE,
  _tmppath: folder,
  _dbpath: join(folder, "database"),
  _binary_payload: "w9.gzdio",
  _buildhost: "localhost",
  use_source_date_epoch_as_buildtime: "1",
  clamp_mtime_to_source_date_epoch: "1",
  source_date_epoch_from_changelog: "0",
  _build_id_links: "none",
  debug_package: "%{nil}",
  // The steps after %install strip programs, and would cut off what a compiled program of Bun has behind its code.
  __os_install_post: "%{nil}",
})

/** Returns the spec file. A tilde sorts before the release: 1.0.0~rc.1 is older than 1.0.0. */
const specOf = ({ name, version, description, license, publisher, repository }: Facts, files: readonly PackedFile[]) =>
  `Name: ${name}
Version: ${version.replace("-", "~")}
Release: ${RPM_RELEASE}
Summary: ${description}
License: ${license}
Vendor: ${publisher}
Packager: ${publisher}
Group: Applications/Internet
URL: ${repository}
AutoReqProv: no
Requires: libc.so.6(GLIBC_${OLDEST_GLIBC})(64bit)
Conflicts: ${CONFLICTING_PACKAGE}

%description
${description}

%install
mkdir -p %{buildroot}
cp -R %{_sourcedir}/files/. %{buildroot}

%files
${files.map(({ path, mode }) => `%attr(${mode.toString(8)}, root, root) /${path}`).join("\n")}
`
