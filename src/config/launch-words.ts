/**
 * Finds the words of a command that choose what runs: the program, package, image, script or code that a launcher (`node`,
 * `npx`, `docker run`, `env`, `timeout` …) takes, and the launcher's own options before it, which may load code. The words
 * after it are data for the program.
 *
 *  1. A launcher is recognized by its name: as the command itself, as the program that another launcher runs, and, for names
 *     that hardly mean anything else (`node`, `npx`, `docker`), as any word, so that an unknown wrapper hides nothing.
 *  2. In doubt a word counts: after an option that is not known to take no value, the next word may be its value or the
 *     program, and both count.
 */

/** The thing that a word chooses: a program to run, or a folder of this machine that a container can read. */
export type LaunchWord = "program" | "folder"

/** Returns the indexes into `words` (the command, then its arguments) of the words that choose something. */
export function launchWords(words: readonly string[]): ReadonlyMap<number, LaunchWord> {
  const found = new Map<number, LaunchWord>()
  let command = 0
  for (let at = 0; at < words.length; at++) {
    const launcher = launcherOf(words, at, at === command)
    if (launcher === undefined) continue
    if (launcher.kind === "joins") {
      for (let rest = at + 1; rest < words.length; rest++) found.set(rest, "program")
      break
    }
    const target = markTarget(launcher, words, at, found)
    switch (launcher.kind) {
      case "interpreter":
        at = target
        break
      case "shell":
        // The word after the code of `-c` is its name for messages.
        at = words.slice(at, target).some((word) => /^-\w*c$/.test(word)) ? target + 1 : target
        break
      case "runner":
        command = target
        at = target - 1
        break
      case "container":
        command = target + 1
        at = target - 1
        break
    }
  }
  return found
}

// ---

type Launcher = {
  readonly name: RegExp
  /**
   * An interpreter takes a script or code, a shell the same with a name after it, a runner a command or a package that is a
   * command, a container an image and then a command. A launcher that joins its words makes code of all of them.
   */
  readonly kind: "interpreter" | "shell" | "runner" | "container" | "joins"
  /** Options that take no value. An option that takes code (`-e`) counts as one: the code is the first operand. */
  readonly flags?: RegExp
  /** Options whose value is data. */
  readonly data?: RegExp
  /** Options whose value is a folder of this machine. */
  readonly folders?: RegExp
  /** Operands that stand before the target, for example the duration of `timeout`. */
  readonly operands?: number
  /** Whether the name counts wherever it stands. */
  readonly anywhere?: true
  /** An option that excludes this entry: the next entry of the same name applies. */
  readonly unless?: RegExp
}

const LAUNCHERS: readonly Launcher[] = [
  {
    kind: "shell",
    name: /^(?:(?:ba|z|da|a|k|mk|fi|c|tc|ya|rba)?sh|shell|nu|elvish|xonsh)$/,
    flags: /^[-+]\w*[^\WoOC]$/,
    anywhere: true,
  },
  { kind: "joins", name: /^(?:powershell|pwsh)$/, unless: /^-f/i, anywhere: true },
  {
    kind: "interpreter",
    name: /^(?:powershell|pwsh)$/,
    flags: /^-(?:f\w*|nop\w*|nol\w*|noni\w*|sta|mta)$/i,
    anywhere: true,
  },
  { kind: "interpreter", name: /^(?:python|pypy|py)[\d.]*w?$/, flags: /^-\w*[^\WWX]$/, anywhere: true },
  {
    kind: "interpreter",
    name: /^(?:node(?:js)?|tsx|ts-node|perl|ruby|php)[\d.]*$/,
    flags: /^(?:-[neEpwsui]{1,3}|--(?:eval|print|no-warnings|enable-source-maps|expose-gc))$/,
    anywhere: true,
  },
  {
    kind: "interpreter",
    name: /^(?:(?:[gmn]?awk|g?sed|lua(?:jit)?|rscript|julia|elixir|groovy|scala|java|mono|tclsh|guile|wasmtime)[\d.]*|qemu-\w[\w.]*)$/,
    flags: /^-[nefEi]$/,
  },
  {
    kind: "runner",
    name: /^(?:npx|npm|pnpm|pnpx|yarn|bun|bunx|deno|uvx?|pipx|dnx)$/,
    flags:
      /^(?:-[yqsvA]|--(?:yes|quiet|silent|verbose|no-install|offline|prefer-offline|isolated|no-cache|refresh|frozen|locked|bun|smol|hot|watch|allow-all|no-prompt))$/,
    anywhere: true,
  },
  {
    kind: "runner",
    name: /^(?:pip|poetry|pdm|hatch|rye|pipenv|conda|mamba|micromamba|pixi|cargo|go|dotnet|gem|bundle|rbenv|pyenv|volta|fnm|mise|asdf|flatpak|snap|make|just|task)$/,
    flags: /^(?:-[qv]|--(?:quiet|verbose))$/,
  },
  {
    kind: "container",
    name: /^(?:docker|podman|nerdctl|finch)$/,
    flags: /^(?:-[itdqP]+|--(?:rm|init|interactive|tty|detach|privileged|read-only|quiet))$/,
    data: /^(?:-[ewlhup]|--(?:env|workdir|label|name|hostname|user|publish))$/,
    folders: /^(?:-v|--(?:volume|mount))$/,
    anywhere: true,
  },
  { kind: "interpreter", name: /^git$/, folders: /^(?:-C|--work-tree)$/ },
  { kind: "runner", name: /^env$/, flags: /^(?:-[i0v]?|--ignore-environment)$/ },
  {
    kind: "runner",
    name: /^(?:sudo|doas|nice|ionice|nohup|setsid|stdbuf|unbuffer|xargs|time|command|exec|nsenter|unshare|strace|ltrace|caffeinate|tini|dumb-init|catatonit|cross-env|dotenv|direnv|op|doppler|firejail|bwrap|proot|dbus-run-session|systemd-run|busybox|rlwrap)$/,
    flags: /^(?:-[0EHb]|--(?:preserve-env|wait|fork|user))$/,
  },
  { kind: "runner", name: /^(?:timeout|flock|chroot|taskset|chrt|gosu|su-exec|numactl)$/, operands: 1 },
  {
    kind: "joins",
    name: /^(?:watch|wsl|su|runuser|script|expect|nix(?:-shell)?|ssh|parallel|tmux|screen|osascript|at|batch|eval|start|supergateway|concurrently|nodemon)$/,
  },
]

/** Words of a package manager or a container tool that choose what it does, before what it runs. */
const SUBCOMMAND = /^(?:run|exec|x|dlx|tool|eval|serve|task|create|container|compose)$/

function launcherOf(words: readonly string[], at: number, isCommand: boolean): Launcher | undefined {
  const name = programName(words[at] ?? "")
  return LAUNCHERS.find(
    (one) =>
      (isCommand || one.anywhere === true) &&
      one.name.test(name) &&
      (one.unless === undefined || !words.slice(at + 1).some((word) => one.unless?.test(word))),
  )
}

/** Adds the words of a launcher up to its target, and returns the index of the target. */
function markTarget(
  launcher: Launcher,
  words: readonly string[],
  start: number,
  found: Map<number, LaunchWord>,
): number {
  const { kind, flags, data, folders, operands = 0 } = launcher
  let operandsLeft = operands
  let mayBeValue = false
  let options = true
  for (let at = start + 1; at < words.length; at++) {
    const word = words[at] ?? ""
    const hasValue = word.includes("=")
    if (options && word === "--") {
      options = false
      mayBeValue = false
    } else if (options && /^[-+]./.test(word)) {
      const option = word.replace(/=.*/s, "")
      const isFolder = folders?.test(option) === true
      const isKnown = isFolder || data?.test(option) === true
      if (isKnown && !hasValue) at++
      if (isFolder) found.set(at, "folder")
      if (!isKnown) found.set(at, "program")
      mayBeValue = !isKnown && !hasValue && flags?.test(word) !== true
    } else if (kind === "runner" && !mayBeValue && /^[A-Za-z_]\w*=/.test(word)) {
      // An assignment; render.ts judges the variable.
    } else {
      found.set(at, "program")
      if (mayBeValue) mayBeValue = false
      else if (!takesSubcommand(kind) || !SUBCOMMAND.test(word)) {
        if (operandsLeft === 0) return at
        operandsLeft--
      }
    }
  }
  return words.length
}

const takesSubcommand = (kind: Launcher["kind"]): boolean => kind === "runner" || kind === "container"

/** Returns the name of a program or package without its folder, scope, extension, version and the signs of a reference. */
const programName = (word: string): string =>
  (word.split(/[\\/]/).at(-1) ?? word)
    .toLowerCase()
    .replace(/[${}"']/g, "")
    .replace(/(?<=.)[@:].*$/s, "")
    .replace(/\.(?:exe|cmd|bat|com)$/, "")
