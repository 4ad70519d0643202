/** Which end-to-end tests the platforms run. */

/**
 * The files of test/e2e that each platform runs: what differs there, within the time of CI. svc takes seconds to start under
 * qemu.
 */
export const PORTABLE = {
  windows: ["serve", "reload", "commands", "health", "tools", "select", "background"],
  arm64: ["serve"],
  musl: ["serve", "reload"],
} as const

type Unportable = { readonly title: string; readonly windows?: string; readonly arm64?: string; readonly musl?: string }

const SHELL = "a server of it is a program of POSIX: sh or sleep"
const NO_SIGNALS = "Windows has no signals: SIGTERM ends a process at once"
const NO_TERMINAL = "Bun opens no terminal on Windows"
const POSIX_FILES = "modes, sockets or devices of POSIX"
const EXIT_CODE = "Windows knows exit codes instead of SIGKILL"
const NOT_REFUSED = "under Wine, a test that waits for a refused connection hangs"
const SELF = {
  arm64: "svc starts itself again, which qemu-user cannot without binfmt_misc",
  musl: "svc starts itself again, without the variable that names the libraries here",
}

/** The tests of these files that a platform cannot run, by a part of their title, with the reason. */
export const UNPORTABLE: readonly Unportable[] = [
  { title: "svc's commands find a demo", ...SELF },
  { title: "--demo needs no configuration", ...SELF },
  { title: "an unknown tool is an error that names", ...SELF },
  { title: "piped requests are answered in order", ...SELF },
  { title: "an unwritable folder is named, with what to do", windows: POSIX_FILES },
  { title: "output that cannot be written is one line", windows: SHELL },
  { title: "health answers while a server hangs", windows: SHELL },
  { title: "a call to a remote server that cannot be reached", windows: NOT_REFUSED },
  { title: "a remote server that was away for a moment", windows: NOT_REFUSED },
  { title: "a supervised server is starting at first", windows: SHELL },
  { title: "a call waits for a server that is about to reconnect", windows: NO_SIGNALS },
  { title: "a call waits no longer than --startup-wait", windows: SHELL },
  { title: "a call to a disconnected server is an error that names it", windows: EXIT_CODE },
  { title: "a call to a disconnected server names the reason", windows: EXIT_CODE },
  { title: "two hundred edits in a row", windows: "Windows refuses the test's rename while svc reads the file" },
  { title: "SIGTERM lets a running call finish", windows: NO_SIGNALS },
  { title: "no child outlives svc when it is killed", windows: SHELL },
  { title: "svc stop kills an svc that hangs", windows: NO_SIGNALS },
  { title: "SIGHUP reloads, and stops an svc", windows: NO_TERMINAL },
  { title: "a second signal exits at once", windows: NO_SIGNALS },
  { title: "a control socket with a long path", windows: POSIX_FILES },
  { title: "of two instances that start at the same time", windows: NO_SIGNALS },
  { title: "health --wait waits until everything is loaded", windows: SHELL },
  { title: "svc health names the servers that are starting", windows: SHELL },
  { title: "health says which servers are starting", windows: SHELL },
  { title: "a slow reader gets all output", windows: SHELL },
  { title: "health of this configuration is shown at any level", windows: SHELL },
  { title: "logs show the output of a server", windows: SHELL },
  { title: "a command whose reader closes the pipe", windows: SHELL },
  { title: "the last tool of a server is hidden only after", windows: NO_TERMINAL },
  { title: "a server that is added with all its tools hidden", windows: NO_TERMINAL },
  { title: "in a terminal, an added server comes with", windows: NO_TERMINAL },
  { title: "on a terminal, lines of the log wrap at words", windows: NO_TERMINAL },
]
