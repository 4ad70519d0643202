#!/bin/sh
# Installs svc. In a checkout it builds from source (with Bun from npm if it is not installed); piped from a URL it
# downloads the release file for this platform and checks its SHA-256.
#
#   ./install.sh [--prefix DIR]        installs DIR/bin/svc; the default prefix is ~/.local
#
# SVC_RELEASES is the URL of the folder with the release files.
set -eu

prefix=
# In the install.sh of a release, bun run release sets this to the URL of the latest release.
published=
releases=${SVC_RELEASES:-$published}

say() { printf '%s\n' "$*"; }
fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -ge 2 ] || fail "--prefix needs a directory"
      prefix=$2
      [ -n "$prefix" ] || fail "--prefix needs a directory"
      shift 2
      ;;
    --prefix=*)
      prefix=${1#--prefix=}
      [ -n "$prefix" ] || fail "--prefix needs a directory"
      shift
      ;;
    -h | --help)
      say "usage: install.sh [--prefix DIR]   installs svc into DIR/bin (default ~/.local/bin)"
      exit 0
      ;;
    *) fail "unknown argument: $1 (usage: install.sh [--prefix DIR])" ;;
  esac
done
[ -n "$prefix" ] || prefix=${HOME:?is not set; give --prefix DIR}/.local
case $prefix in
  /*) ;;
  *) prefix=$(pwd)/$prefix ;;
esac
bin=$prefix/bin

# Replaces the file atomically: a running svc keeps the old one. A program that does not run here replaces nothing.
place() {
  mkdir -p "$bin"
  new=$bin/.svc.$$
  cp "$1" "$new"
  chmod 755 "$new"
  answer=$("$new" --version 2>&1) || {
    rm -f "$new"
    case $answer in
      *libstdc++* | *libgcc_s*) fail "svc needs libstdc++ and libgcc: run 'apk add libstdc++ libgcc', then install again; nothing was installed" ;;
      *) fail "svc does not run on this machine: $answer; nothing was installed" ;;
    esac
  }
  mv -f "$new" "$bin/svc"
}

from_source() {
  cd "$1"
  wanted=$(sed -n 's/.*"packageManager": "bun@\([^"]*\)".*/\1/p' package.json)
  . ./test/get-bun.sh
  get_bun "$wanted" "$(pwd)/node_modules/.cache" || exit 1
  say "installing dependencies"
  bun install --frozen-lockfile >/dev/null || fail "cannot install the dependencies: run 'bun install' to see why"
  say "building"
  bun run build >/dev/null || fail "the build failed: run 'bun run build' to see why"
  place dist/svc
}

# Prints the name of this platform's release file.
platform() {
  case $(uname -s) in
    Linux) os=linux ;;
    Darwin) os=darwin ;;
    *) fail "no release for $(uname -s); on Windows, run install.ps1 in PowerShell" ;;
  esac
  case $(uname -m) in
    x86_64 | amd64) arch=x64 ;;
    aarch64 | arm64) arch=arm64 ;;
    *) fail "no release for $(uname -m)" ;;
  esac
  # The loader of musl alone proves nothing: Debian has a package with it.
  libc=
  if [ "$os" = linux ]; then
    case $(ldd /bin/sh 2>/dev/null || ls /lib/ld-musl-*.so.1 2>/dev/null) in *musl*) libc=-musl ;; esac
  fi
  say "svc-$os-$arch$libc"
}

download() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL "$1" -o "$2"
  elif command -v wget >/dev/null 2>&1; then
    wget -q "$1" -O "$2"
  else
    fail "install curl or wget first"
  fi
}

sha256() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1" | cut -d ' ' -f 1
  else
    shasum -a 256 "$1" | cut -d ' ' -f 1
  fi
}

from_release() {
  [ -n "$releases" ] || fail "svc has no published releases yet: run ./install.sh in a clone to build it from source, or set SVC_RELEASES to the URL of the folder with the release files"
  name=$(platform)
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  say "downloading $name"
  download "$releases/$name" "$folder/$name" || fail "cannot download $releases/$name"
  download "$releases/SHA256SUMS" "$folder/SHA256SUMS" || fail "cannot download $releases/SHA256SUMS"
  expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $name\$/\1/p" "$folder/SHA256SUMS")
  [ -n "$expected" ] || fail "SHA256SUMS does not name $name"
  [ "$(sha256 "$folder/$name")" = "$expected" ] || fail "the SHA-256 of $name differs from SHA256SUMS; nothing was installed"
  place "$folder/$name"
}

# Piped from a URL, $0 is the shell: the current folder may belong to another project and must not be built.
here=$(dirname "$0")
if [ "$(basename "$0")" = install.sh ] && [ -f "$here/test/get-bun.sh" ]; then from_source "$here"; else from_release; fi

say "installed $bin/svc: $("$bin/svc" --version)"
svc=svc
case ":$PATH:" in
  *":$bin:"*) ;;
  *)
    svc=$bin/svc
    say "$bin is not on your PATH; add this line to your shell profile:"
    say "  export PATH=\"$bin:\$PATH\""
    ;;
esac
if "$bin/svc" completion --help >/dev/null 2>&1; then say "for completion in your shell: $svc completion --help"; fi
say "try it: $svc serve --demo"
