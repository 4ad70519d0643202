import { afterAll, describe, expect, test } from "bun:test"
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { buildContext } from "../../src/template/context.ts"
import { contextSchema } from "../../src/template/context-schema.ts"
import { findProject, parseGitConfig, projectFiles, withDrive } from "../../src/template/project.ts"

const base = realpathSync(mkdtempSync(join(tmpdir(), "svc-project-")))
afterAll(() => rmSync(base, { recursive: true, force: true }))

const home = join(base, "home")
const put = (path: string, text: string) => {
  const file = join(base, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  return file
}
const find = (path: string) => {
  const directory = join(base, path)
  mkdirSync(directory, { recursive: true })
  return findProject(directory, { home })
}

/** A real repository; git is only used here. */
function git(folder: string, ...args: string[]): void {
  const { exitCode, stderr } = Bun.spawnSync(["git", "-c", "user.name=T", "-c", "user.email=t@example.com", ...args], {
    cwd: join(base, folder),
    env: { PATH: process.env.PATH ?? "", HOME: home, GIT_CONFIG_NOSYSTEM: "1" },
  })
  if (exitCode !== 0) throw new Error(stderr.toString())
}

mkdirSync(join(home, "repo", "packages", "api"), { recursive: true })
git("home/repo", "init", "-q", "-b", "main")
git("home/repo", "commit", "-q", "--allow-empty", "-m", "one")

describe("a project", () => {
  test("is the repository around a directory, on its branch", () => {
    expect(find("home/repo/packages/api")).toMatchObject({
      directory: join(home, "repo", "packages", "api"),
      root: join(home, "repo"),
      branch: "main",
    })
    git("home/repo", "checkout", "-q", "-b", "feature/ä-1")
    expect(find("home/repo").branch).toBe("feature/ä-1")
  })

  test("is the directory itself outside of a repository", () => {
    expect(find("home/plain")).toMatchObject({ root: join(home, "plain"), branch: undefined, svcrc: undefined })
  })

  test("has no branch with a detached HEAD, and has one before the first commit", () => {
    mkdirSync(join(base, "fresh"))
    git("fresh", "init", "-q", "-b", "trunk")
    expect(find("fresh").branch).toBe("trunk")
    git("fresh", "commit", "-q", "--allow-empty", "-m", "one")
    git("fresh", "checkout", "-q", "--detach")
    expect(find("fresh")).toMatchObject({ root: join(base, "fresh"), branch: undefined })
  })

  test("may be a worktree with its own branch and the repository's settings", () => {
    git("home/repo", "worktree", "add", "-q", "-b", "side", join(base, "side"))
    git("home/repo", "config", "user.email", "repo@example.com")
    const { root, branch, user } = find("side/deeper")
    expect({ root, branch, email: user.email }).toEqual({
      root: join(base, "side"),
      branch: "side",
      email: "repo@example.com",
    })
  })

  test("prefers the repository's user to the one in the home", () => {
    put("home/.gitconfig", '[user]\n\tname = "Ada L"\n\temail = home@example.com\n')
    put("home/.config/git/config", "[user]\nname = Other\n")
    expect(find("home/repo").user).toMatchObject({ name: "Ada L", email: "repo@example.com", home })
    expect(find("home/plain").user).toMatchObject({ name: "Ada L", email: "home@example.com" })
  })

  test("rejects a branch that looks like an option", () => {
    put("ill/.git/HEAD", "ref: refs/heads/--upload-pack=touch\n")
    expect(find("ill")).toMatchObject({ root: join(base, "ill"), branch: undefined })
  })

  test("finds the nearest .svcrc, and none above the repository", () => {
    put("home/.svcrc", '{"preset": "home"}')
    expect(find("home/repo/packages/api").svcrc).toBeUndefined()
    const file = put("home/repo/packages/.svcrc", "{}")
    expect(find("home/repo/packages/api").svcrc).toEqual({ file, text: "{}" })
    expect(find("home/plain").svcrc?.file).toBe(join(home, ".svcrc"))
  })

  test("is no repository without a valid .git", () => {
    put("odd/.git", "gitdir: /nowhere/at/all\n")
    mkdirSync(join(base, "odd2", ".git"), { recursive: true })
    expect(find("odd").root).toBe(join(base, "odd"))
    expect(find("odd2/x").root).toBe(join(base, "odd2", "x"))
  })

  test("has the nearest .svcrc even if it cannot be read", () => {
    put("home/repo/vast/.svcrc", " ".repeat(300_000))
    expect(find("home/repo/vast/x").svcrc).toEqual({ file: join(home, "repo", "vast", ".svcrc"), text: undefined })
  })

  test("names the files to watch", () => {
    const repo = join(home, "repo")
    expect(projectFiles(join(repo, "packages"), home)).toEqual([
      join(repo, ".git", "HEAD"),
      join(repo, "packages", ".svcrc"),
      join(repo, ".svcrc"),
    ])
    // A repository may be made here.
    mkdirSync(join(home, "plain"), { recursive: true })
    expect(projectFiles(join(home, "plain"), home)).toContain(join(home, "plain", ".git", "HEAD"))
  })

  test("makes a context that passes the schema", () => {
    const { directory, root, branch, user } = find("home/repo/packages")
    const context = buildContext({
      directory,
      root,
      branch,
      user,
      said: { environment: "dev", custom: { port: 1 } },
      transport: { type: "stdio", client: { name: "x" } },
      sessionId: "s",
      now: 0,
      version: "1.0.0",
    })
    expect(context.project).toEqual({
      path: root,
      name: basename(root),
      environment: "dev",
      git: { branch: "feature/ä-1" },
      custom: { port: 1 },
    })
    expect(context.context).toEqual({
      path: directory,
      timestamp: "1970-01-01T00:00:00.000Z",
      sessionId: "s",
      version: "1.0.0",
    })
    expect(contextSchema().parse(JSON.parse(JSON.stringify(context)))).toEqual(JSON.parse(JSON.stringify(context)))
  })
})

test("a git configuration is parsed as git parses it", () => {
  const text = `
# name = no
[core] bare = false
[User]
	name = Ada  L   ; a comment
	EMAIL = "ada \\"x\\" # y@example.com"
	long = one\\
 two
[user "work"]
	name = Not this
[alias]
	name = nor this
`
  expect(Object.fromEntries(parseGitConfig(text))).toEqual({
    "core.bare": "false",
    "user.name": "Ada  L",
    "user.email": 'ada "x" # y@example.com',
    "user.long": "one two",
    "alias.name": "nor this",
  })
})

test("the drive of a Windows path is in upper case", () => {
  expect(withDrive("c:\\Users\\me")).toBe("C:\\Users\\me")
  for (const path of ["C:\\x", "\\\\server\\share", "/c:/x", "c:x"]) expect(withDrive(path)).toBe(path)
})
