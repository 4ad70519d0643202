import { expect, test } from "bun:test"
import { type CommandLookup, resolveCommand } from "../../src/backend/resolve-command.ts"
import type { StdioLaunch } from "../../src/config/server-spec.ts"

const launch = (
  command: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): StdioLaunch => ({
  transport: "stdio",
  command,
  args,
  cwd: undefined,
  env,
  stderr: "pipe",
  mode: "auto",
})
const finds = (path: string | null, windows: boolean): CommandLookup => ({ windows, which: () => path })

test("a command is looked up in the child's own PATH", () => {
  const asked: unknown[] = []
  const which = (command: string, options: object) => {
    asked.push([command, options])
    return "/opt/bin/web"
  }
  expect(
    resolveCommand({ ...launch("web", ["-v"], { PATH: "/opt/bin" }), cwd: "/srv" }, "web", { windows: false, which }),
  ).toEqual({
    cmd: ["/opt/bin/web", "-v"],
    verbatim: false,
  })
  expect(asked).toEqual([["web", { PATH: "/opt/bin", cwd: "/srv" }]])
})

test("the error for a command line given as the command says to split it", () => {
  expect(() => resolveCommand(launch("npx -y thing"), "web", finds(null, false))).toThrow(
    'web: command not found: "npx -y thing" (put its arguments into "args")',
  )
})

test("the error for a path without a program does not ask for a path", () => {
  const told = (command: string) => () => resolveCommand(launch(command), "web", finds(null, false))
  expect(told("/srv/web.sh")).toThrow("web: no program at /srv/web.sh: check that it exists and is executable")
  expect(told("./my web")).toThrow('executable, and put its arguments into "args"')
  expect(told("web")).toThrow("give its full path")
})

test("on Windows, PATH is found in any case", () => {
  const which = (_: string, { PATH }: { PATH: string }) => PATH
  expect(resolveCommand(launch("x", [], { Path: "C:\\bin" }), "web", { windows: true, which }).cmd).toEqual(["C:\\bin"])
})

test("on Windows, a .cmd shim runs through cmd, with its arguments escaped for cmd", () => {
  const found = "C:\\Program Files (x86)\\nodejs\\npx.cmd"
  const { cmd, verbatim } = resolveCommand(
    launch("npx", ["-y", 'a "b" & %PATH%', "c:\\d\\"]),
    "web",
    finds(found, true),
  )
  expect(verbatim).toBe(true)
  expect(cmd.slice(0, 4)).toEqual(["cmd.exe", "/d", "/s", "/c"])
  // What cmd takes from the outer line, then from the shim's `%*`, and what the program reads.
  const outer = (cmd[4] ?? "").slice(1, -1).replace(/\^(.)/g, "$1")
  const inner = outer.slice(found.length + 3).replace(/\^(.)/g, "$1")
  expect(cmd[4]).toStartWith(`""${found}" `)
  expect(inner).toBe(String.raw`"-y" "a \"b\" & %PATH%" "c:\d\\"`)
})

test("on Windows, a .ps1 shim runs through PowerShell, and an .exe by itself", () => {
  expect(resolveCommand(launch("x", ["a b"]), "web", finds("C:\\x.ps1", true)).cmd.slice(-3)).toEqual([
    "-File",
    "C:\\x.ps1",
    "a b",
  ])
  expect(resolveCommand(launch("x", ["a b"]), "web", finds("C:\\x.exe", true)).cmd).toEqual(["C:\\x.exe", "a b"])
})

test("on Windows, interpreters are found without the server's PATH and by variables in any case", () => {
  const env = { comspec: "D:\\cmd.exe", SystemRoot: "D:\\Windows", PATH: "C:\\node" }
  expect(resolveCommand(launch("x", [], env), "web", finds("C:\\x.cmd", true)).cmd[0]).toBe("D:\\cmd.exe")
  expect(resolveCommand(launch("x", [], env), "web", finds("C:\\x.ps1", true)).cmd[0]).toBe(
    "D:\\Windows\\System32\\WindowsPowerShell\\v1.0\\powershell.exe",
  )
})

test("on Windows, an argument with a line break is not passed to a shim", () => {
  const run = (path: string) => () => resolveCommand(launch("x", ["a\r\ncalc"]), "web", finds(path, true))
  expect(run("C:\\x.cmd")).toThrow("web: an argument with a line break cannot be passed to C:\\x.cmd")
  expect(run("C:\\x.exe")).not.toThrow()
})
