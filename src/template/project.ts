/**
 * What the machine says of a directory: its repository, the branch, `.svcrc` and who works there. It is read from files;
 * no git is started, so it takes well under a millisecond and works where there is none.
 *
 * Of git's own configuration the user's name and address are read: from the repository, from `~/.gitconfig` and from the
 * configuration folder, the nearest first. Files that these include are not looked into.
 */
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs"
import { homedir, userInfo } from "node:os"
import { dirname, join, resolve } from "node:path"
import type { TemplateContext } from "./context.ts"
import { SVCRC, svcrcFolders } from "./svcrc.ts"

export type Project = {
  /** Absolute, links resolved. */
  readonly directory: string
  /** The repository's root, or the directory outside of one. */
  readonly root: string
  /** Undefined outside of a repository and where no branch is checked out. */
  readonly branch: string | undefined
  readonly user: TemplateContext["user"]
  /** The `.svcrc` that counts; without a text where it cannot be read. */
  readonly svcrc: { readonly file: string; readonly text: string | undefined } | undefined
}

/** Who is asked for and where the user's own files are. */
export type HomeFolders = { readonly home?: string; readonly configHome?: string | undefined }

/** The user's own directory; `/` where there is none, as for a user of a container who is in no list of users. */
export function homeDirectory(): string {
  try {
    return homedir()
  } catch {
    return "/"
  }
}

/** What is found from `directory` upward. Never throws for what cannot be read. */
export function findProject(
  directory: string,
  { home = homeDirectory(), configHome = join(home, ".config") }: HomeFolders = {},
): Project {
  const here = realPath(directory)
  const homeHere = realPath(home)
  const repository = findRepository(here)
  const configs = [
    ...(repository === undefined ? [] : [join(repository.common, "config")]),
    join(home, ".gitconfig"),
    join(configHome, "git", "config"),
  ].map((file) => parseGitConfig(readText(file) ?? ""))
  const setting = (key: string) => configs.map((config) => config.get(key)).find((value) => value !== undefined)
  const svcrc = svcrcFolders(here, repository?.root, homeHere)
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

/** The files whose change may change what `findProject` finds, for a watch: HEAD and every place of a `.svcrc`. */
export function projectFiles(directory: string, home = homeDirectory()): readonly string[] {
  const here = realPath(directory)
  const repository = findRepository(here)
  return [
    join(repository?.git ?? join(here, ".git"), "HEAD"),
    ...svcrcFolders(here, repository?.root, realPath(home)).map((folder) => join(folder, SVCRC)),
  ]
}

/** A path with its drive in one spelling: editors start what they start in `c:\\` as well as in `C:\\`. */
export const withDrive = (path: string): string => path.replace(/^[a-z]:(?=\\)/, (drive) => drive.toUpperCase())

/** Settings of a git configuration by `section.key`, lower case; subsections are left out. The last of a name counts. */
export function parseGitConfig(text: string): ReadonlyMap<string, string> {
  const settings = new Map<string, string>()
  let section = ""
  for (const line of text.replace(/\\\r?\n/g, "").split(/\r?\n/)) {
    const header = /^\s*\[\s*([A-Za-z0-9.-]+)(\s+"(?:[^"\\]|\\.)*")?\s*\](.*)$/.exec(line)
    if (header !== null) section = header[2] === undefined ? (header[1] ?? "").toLowerCase() : ""
    const setting = /^\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)$/.exec(header?.[3] ?? line)
    if (setting !== null && section !== "")
      settings.set(`${section}.${(setting[1] ?? "").toLowerCase()}`, gitValue(setting[2] ?? ""))
  }
  return settings
}

// ---

/** More than any file here can need. */
const MAX_BYTES = 256 * 1024

type Repository = {
  readonly root: string
  /** Where HEAD is; of a worktree its own. */
  readonly git: string
  /** Where the repository's configuration is. */
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

/** `.git` is a folder, or in worktrees and submodules a file that says where it is. It has a HEAD, or it is none. */
function gitFolder(root: string): string | undefined {
  const place = join(root, ".git")
  const pointer = /^gitdir: (.+?)\s*$/.exec(readText(place) ?? "")?.[1]
  const git = pointer === undefined ? place : resolve(root, pointer)
  return readText(join(git, "HEAD")) === undefined ? undefined : git
}

/**
 * Detached heads have no branch; of other ways to keep references git shows `.invalid` here. No branch begins with a dash,
 * but the HEAD of a repository that means ill may, and would be an option to the command that it is given to.
 */
function branchOf(head: string | undefined): string | undefined {
  const branch = /^ref: refs\/heads\/((?!-)\P{Cc}+)$/u.exec(head?.trimEnd() ?? "")?.[1]
  return branch === ".invalid" ? undefined : branch
}

/** A value without its comment and quotes. */
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

/** Bun knows the name from `$USER` alone, and says "unknown" where that is not set; the user database knows better. */
function username(): string {
  const uid = process.getuid?.()
  try {
    const { username } = userInfo()
    if (username !== "unknown") return username
  } catch {
    // Who is in no list of users has no home either.
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

/** Only a plain file of a sane size: no pipe must hold this up. */
function readText(file: string): string | undefined {
  try {
    const facts = statSync(file)
    return facts.isFile() && facts.size <= MAX_BYTES ? readFileSync(file, "utf8") : undefined
  } catch {
    return undefined
  }
}
