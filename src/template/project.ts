/**
 * Facts about a directory: its repository, branch, user and `.svcrc`. Reads files and starts no git, so that it takes well
 * under a millisecond and works without git.
 *
 * Reads the user's name and e-mail address from git's configuration: of the repository, in `~/.gitconfig` and in the
 * configuration folder, the nearest first. Does not follow includes.
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs"
import { userInfo } from "node:os"
import { dirname, join, resolve } from "node:path"
import { homeDirectory } from "../lib/home-directory.ts"
import type { TemplateContext } from "./context-schema.ts"
import { SVCRC, svcrcFolders } from "./svcrc.ts"

export type Project = {
  /** Absolute, with links resolved. */
  readonly directory: string
  /** The repository's root, or the directory outside of one. */
  readonly root: string
  /** Undefined outside of a repository, and if no branch is checked out. */
  readonly branch: string | undefined
  readonly user: TemplateContext["user"]
  /** The nearest `.svcrc`; its text is undefined if it cannot be read. */
  readonly svcrc: { readonly file: string; readonly text: string | undefined } | undefined
}

/** The user's home and configuration folder; the default is those of the process. */
export type HomeFolders = { readonly home?: string; readonly configHome?: string | undefined }

/** Finds the facts about a directory in it and in the folders above. Treats unreadable files as missing. */
export function findProject(
  directory: string,
  { home = homeDirectory(), configHome = join(home, ".config") }: HomeFolders = {},
): Project {
  const here = realPath(directory)
  const realHome = realPath(home)
  const repository = findRepository(here)
  const configs = [
    ...(repository === undefined ? [] : [join(repository.common, "config")]),
    join(home, ".gitconfig"),
    join(configHome, "git", "config"),
  ].map((file) => parseGitConfig(readText(file) ?? ""))
  const setting = (key: string) => configs.map((config) => config.get(key)).find((value) => value !== undefined)
  const svcrc = svcrcFolders(here, repository?.root, realHome)
    .map((folder) => join(folder, SVCRC))
    .find((file) => existsSync(file))
  return {
    directory: here,
    root: repository?.root ?? here,
    branch: repository === undefined ? undefined : branchOf(readText(join(repository.git, "HEAD"))),
    user: { username: username(), home, name: setting("user.name"), email: setting("user.email") },
    svcrc: svcrc === undefined ? undefined : { file: svcrc, text: readText(svcrc) },
  }
}

/** Returns the files to watch for changes of `findProject`'s result: HEAD, and every place of a `.svcrc`. */
export function projectFiles(directory: string, home = homeDirectory()): readonly string[] {
  const here = realPath(directory)
  const repository = findRepository(here)
  return [
    join(repository?.git ?? join(here, ".git"), "HEAD"),
    ...svcrcFolders(here, repository?.root, realPath(home)).map((folder) => join(folder, SVCRC)),
  ]
}

/** Returns a Windows path with an upper-case drive: editors start processes in `c:\\` as well as in `C:\\`. */
export const withDrive = (path: string): string => path.replace(/^[a-z]:(?=\\)/, (drive) => drive.toUpperCase())

/** Parses a git configuration. Returns settings by `section.key`, lower case, without subsections; the last one wins. */
export function parseGitConfig(text: string): ReadonlyMap<string, string> {
  const settings = new Map<string, string>()
  let section = ""
  for (const line of text.replace(/\\\r?\n/g, "").split(/\r?\n/)) {
    const header = /^\s*\[\s*([A-Za-z0-9.-]+)(\s+"(?:[^"\\]|\\.)*")?\s*\](.*)$/.exec(line)
    if (header !== null) section = header[2] === undefined ? (header[1] ?? "").toLowerCase() : ""
    const setting = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*=(.*)$/.exec(header?.[3] ?? line)
    if (setting !== null && section !== "")
      settings.set(`${section}.${(setting[1] ?? "").toLowerCase()}`, gitValue((setting[2] ?? "").trimStart()))
  }
  return settings
}

// ---

/** Larger than any of these files needs to be. */
const MAX_BYTES = 256 * 1024

type Repository = {
  readonly root: string
  /** The folder of HEAD; a worktree has its own. */
  readonly git: string
  /** The folder of the repository's configuration. */
  readonly common: string
}

function findRepository(directory: string): Repository | undefined {
  for (let root = directory; ; ) {
    const git = gitFolder(root)
    if (git !== undefined) {
      const common = readText(join(git, "commondir"))?.trim()
      return { root, git, common: common ? resolve(git, common) : git }
    }
    const parent = dirname(root)
    if (parent === root) return undefined
    root = parent
  }
}

/** Returns the git folder of a root, or undefined. `.git` is a folder, or a file that names it (worktrees, submodules); it must contain a HEAD. */
function gitFolder(root: string): string | undefined {
  const path = join(root, ".git")
  const pointer = /^gitdir: (.+)/.exec(readText(path) ?? "")?.[1]?.trimEnd()
  const git = pointer === undefined ? path : resolve(root, pointer)
  return readText(join(git, "HEAD")) === undefined ? undefined : git
}

/**
 * Returns the branch of a HEAD file; undefined if it is detached, or if git stores references elsewhere (`.invalid`). Rejects a
 * leading dash, which git forbids but a malicious repository may have: a command would take it for an option.
 */
function branchOf(head: string | undefined): string | undefined {
  const branch = /^ref: refs\/heads\/((?!-)\P{Cc}+)$/u.exec(head?.trimEnd() ?? "")?.[1]
  return branch === ".invalid" ? undefined : branch
}

/** Returns a value without its comment, quotes and escapes. */
function gitValue(written: string): string {
  let value = ""
  let bare = ""
  let quoted = false
  for (const [piece] of written.matchAll(/\\.|[^\\]/gsu)) {
    if (piece === '"') quoted = !quoted
    else if (!quoted && /[#;]/.test(piece)) break
    else if (!quoted && /\s/.test(piece)) {
      bare += piece
    } else {
      value += bare + (piece.length > 1 ? (ESCAPES[piece] ?? piece.slice(1)) : piece)
      bare = ""
    }
  }
  return value
}

const ESCAPES: Readonly<Record<string, string>> = { "\\n": "\n", "\\t": "\t", "\\b": "\b" }

/** Returns the user's name. Bun reads `$USER` and returns "unknown" if it is unset; then the user database has the name. */
function username(): string {
  const uid = process.getuid?.()
  try {
    const { username } = userInfo()
    if (username !== "unknown") return username
  } catch {
    // The user id is not in the user database.
  }
  const line = readText("/etc/passwd")
    ?.split("\n")
    .find((entry) => entry.split(":")[2] === String(uid))
  return line?.split(":")[0] ?? ""
}

function realPath(path: string): string {
  try {
    return withDrive(realpathSync(path))
  } catch {
    return withDrive(resolve(path))
  }
}

/** Reads a regular file of bounded size, else returns undefined: a pipe must not block. */
function readText(file: string): string | undefined {
  try {
    const facts = statSync(file)
    return facts.isFile() && facts.size <= MAX_BYTES ? readFileSync(file, "utf8") : undefined
  } catch {
    return undefined
  }
}
