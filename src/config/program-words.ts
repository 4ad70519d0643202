/**
 * Finds the arguments of a command that are program text: the words after `sh -c`, `node -e`, `cmd /c` and the like. Any word
 * may be an interpreter, so that `env`, `timeout`, `sudo` or `docker run` before it hides nothing. In doubt (the value of an
 * option, or a script?) a word counts as program text; a template can write `{{raw …}}`.
 */

/** Returns the indexes in `words` (the command and its arguments) of the words that an interpreter takes as its program. */
export function programWords(words: readonly string[]): ReadonlySet<number> {
  const found = new Set<number>()
  for (const [at, word] of words.entries()) {
    const name = baseName(word)
    const interpreter = INTERPRETERS.find((one) => one.name.test(name))
    if (interpreter !== undefined) mark(interpreter, words, at, found)
  }
  return found
}

// ---

/** How a family of interpreters takes program text. */
type Interpreter = {
  readonly name: RegExp
  /** The option that program text follows, or is attached to. */
  readonly program?: RegExp
  /** The extent of program text: one word, or all following words, which the interpreter joins. */
  readonly extent: "word" | "rest"
  /** Matches options (default: words that begin with a dash). */
  readonly option?: RegExp
  /** Matches options whose value is the next word (default: any option). */
  readonly valued?: RegExp
  /** Set if the words after the first operand are program text too: a remote shell joins and runs them. */
  readonly remote?: true
}

const INTERPRETERS: readonly Interpreter[] = [
  {
    name: /^(?:(?:ba|z|da|a|k|mk|fi|c|tc|ya|rba)?sh|shell|su|script|nu|elvish|xonsh)$/,
    program: /^-(?:[A-Za-z]*c|-command|-init-command)/,
    extent: "word",
  },
  { name: /^cmd$/, program: /^\/\S*[ckr]/i, extent: "rest", option: /^[/-]/ },
  {
    name: /^(?:powershell|pwsh)$/,
    program: /^[-/\u2013-\u2015]{1,2}(?:c(?:o|om\w*|wa)?|e(?:c|n\w*)?)$/i,
    extent: "rest",
    option: /^[-/\u2013-\u2015]/,
  },
  { name: /^(?:python|pypy|py)[\d.]*w?$/, program: /^-[A-Za-z]*c/, extent: "word" },
  {
    name: /^(?:node(?:js)?|bun|deno|tsx|ts-node|perl|ruby|lua(?:jit)?|php|osascript|rscript|julia|elixir|groovy)[\d.]*$/,
    program: /^(?:-(?!-)\S*[eEpPrRB]|--(?:eval|print|expression|run)(?:=|$)|eval$)/,
    extent: "word",
  },
  {
    name: /^(?:npx|npm|pnpm|pnpx)$/,
    program: /^(?:-c|--call)/,
    extent: "word",
    option: /^(?:-|exec$|x$)/,
    valued: /^(?:-[pw]|--package|--workspace|--prefix|--registry|--userconfig|--cache)$/,
  },
  {
    name: /^env$/,
    program: /^-(?:[A-Za-z0-9]*S|-split-string)/,
    extent: "word",
    valued: /^(?:-[uC]|--unset|--chdir)$/,
  },
  { name: /^ssh$/, extent: "rest", valued: /^-[A-Za-z0-9]*[BbcDEeFIiJLlmOoPpQRSWw]$/, remote: true },
]

/** Returns the bare name of `/bin/sh`, `C:\…\CMD.EXE` and `${SHELL}`, in lower case. */
const baseName = (word: string): string =>
  (word.split(/[\\/]/).at(-1) ?? word)
    .toLowerCase()
    .replace(/[${}"']/g, "")
    .replace(/\.(?:exe|cmd|bat|com)$/, "")

/** Adds the words that the interpreter at `start` takes as its program. */
function mark(interpreter: Interpreter, words: readonly string[], start: number, found: Set<number>): void {
  const { program, extent, option = /^[-+]./, valued, remote } = interpreter
  const addFrom = (from: number) => {
    for (let index = from; index < words.length; index++) found.add(index)
  }
  const takesValue = (index: number): boolean => {
    const word = words[index] ?? ""
    return index > start && option.test(word) && !word.includes("=") && (valued === undefined || valued.test(word))
  }
  for (let at = start + 1; at < words.length; at++) {
    const word = words[at] ?? ""
    if (program?.test(word)) {
      found.add(at)
      if (extent === "rest") {
        addFrom(at + 1)
        return
      }
      // Other options may come between: the program is the first operand.
      for (at++; at < words.length; at++) {
        found.add(at)
        const next = words[at] ?? ""
        if (!/^[-+]./.test(next)) break
        // `-o pipefail`
        if (/^[-+]\w*[oO]$/.test(next) && at + 1 < words.length) found.add(++at)
      }
    } else if (!option.test(word) && !takesValue(at - 1)) {
      if (remote === true) addFrom(at + 1)
      return
    }
  }
}
