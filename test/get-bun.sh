# get_bun VERSION FOLDER: puts this version of Bun first on PATH, and installs it from npm into FOLDER if it is missing.
# Sourced by test/run and install.sh.
get_bun() {
  if command -v bun >/dev/null 2>&1 && [ "$(bun --version 2>/dev/null)" = "$1" ]; then
    return 0
  fi
  bun_folder="$2/bun-$1"
  if [ "$("$bun_folder/bin/bun" --version 2>/dev/null || true)" != "$1" ]; then
    command -v npm >/dev/null 2>&1 || {
      echo "Bun $1 comes from npm: install Node.js 20 or newer first" >&2
      return 1
    }
    node_version=$(node --version 2>/dev/null || echo unknown)
    node_major=${node_version#v}
    [ "${node_major%%.*}" -ge 20 ] 2>/dev/null || {
      echo "Bun $1 comes from npm, which needs Node.js 20 or newer (this is $node_version)" >&2
      return 1
    }
    echo "installing Bun $1 from npm" >&2
    rm -rf "$bun_folder"
    mkdir -p "$bun_folder/bin"
    npm install --prefix "$bun_folder" --no-save --no-audit --no-fund --no-update-notifier --loglevel=error "bun@$1" >&2 || {
      echo "npm cannot install Bun $1; its error stands above" >&2
      return 1
    }
    # The launcher of the package needs an install script, which npm may refuse to run; the platform's package holds Bun itself.
    for candidate in "$bun_folder"/node_modules/@oven/bun-*/bin/bun "$bun_folder"/node_modules/bun/bin/bun.exe; do
      if [ -f "$candidate" ] && [ "$("$candidate" --version 2>/dev/null || true)" = "$1" ]; then
        ln -sf "$candidate" "$bun_folder/bin/bun"
        ln -sf "$candidate" "$bun_folder/bin/bunx"
        break
      fi
    done
    [ "$("$bun_folder/bin/bun" --version 2>/dev/null || true)" = "$1" ] || {
      echo "the Bun that npm installed does not run on this machine" >&2
      return 1
    }
  fi
  PATH="$bun_folder/bin:$PATH"
  export PATH
}
