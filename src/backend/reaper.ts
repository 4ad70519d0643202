/**
 * Ends the process groups of servers when svc ends, even if svc is killed with SIGKILL and cannot clean up. One small
 * shell, the reaper, holds a pipe to svc and the list of the groups. When the pipe ends, the reaper ends the remaining
 * groups. A process that made a session of its own is in no group of svc.
 *
 *  1. The reaper runs before the first child, and a reaper that dies is replaced at once by a new one with the same list.
 *  2. svc announces a child to the reaper before the child exists, because svc may be killed before it knows the group's
 *     number. On Linux the reaper then finds the group by the mark, an open file that the child inherits. On other systems
 *     such a child may be left.
 *
 * Why a shell: it costs 0.1 MB and 0.3 ms once, for any number of children; it works on Linux and macOS; and it reaches
 * the descendants of a child. The parent-death signal of Linux reaches only the child itself, and only through a wrapper
 * for each child; a record on disk would leave orphans until svc is started again.
 */
import { closeSync, openSync, unlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { messageOf } from "../lib/errors.ts"
import { type ProcessGroup, posixGroup } from "./process-tree.ts"

/** Knows every process group that svc has started and not observed dead. */
export type Reaper = {
  /**
   * Starts a child that leads a group of its own. The child must get `mark`, if there is one, as file descriptor 3. The caller
   * closes the group when it is observed dead: its number may be reused from then on.
   */
  start<C extends { readonly pid: number }>(
    spawn: (mark: number | undefined) => C,
  ): { readonly child: C; readonly group: ProcessGroup }
  /** Kills all remaining groups. For the exit of the process. */
  close(): void
}

/**
 * Returns a reaper for POSIX (Windows: job-object.ts). Its process starts with the first child. Calls `onfail` once if that
 * process cannot be started.
 */
export function createReaper(onfail: (reason: string) => void): Reaper {
  return new PosixReaper(onfail)
}

// ---

class PosixReaper implements Reaper {
  private readonly groups = new Set<number>()
  private shell: ReaperProcess | undefined
  private mark: number | undefined
  private failed = false
  private closed = false
  /** The number of times that the shell may still be replaced before the next child starts. */
  private replacements = 0

  constructor(private readonly onfail: (reason: string) => void) {}

  start<C extends { readonly pid: number }>(spawn: (mark: number | undefined) => C) {
    this.replacements = MAX_REPLACED
    if (this.shell === undefined) this.begin()
    if (this.mark !== undefined) this.tell("?")
    try {
      const child = spawn(this.mark)
      this.groups.add(child.pid)
      this.tell(`+ ${child.pid}`)
      return { child, group: posixGroup(child.pid, () => this.remove(child.pid)) }
    } catch (error) {
      this.tell("!")
      throw error
    }
  }

  close(): void {
    this.closed = true
    for (const group of this.groups)
      try {
        process.kill(-group, "SIGKILL")
      } catch {
        // The group is empty.
      }
    this.groups.clear()
    this.tell("!")
    const { shell, mark } = this
    this.shell = undefined
    void Promise.resolve(shell?.stdin.end()).catch(() => undefined)
    if (mark !== undefined) closeSync(mark)
    this.mark = undefined
  }

  // ---

  private remove(group: number): void {
    if (this.groups.delete(group)) this.tell(`- ${group}`)
  }

  private begin(): void {
    try {
      this.mark ??= openMark()
      const shell = spawnReaper(this.mark)
      this.shell = shell
      shell.unref()
      void shell.exited.then(() => this.replace(shell))
      for (const group of this.groups) this.tell(`+ ${group}`)
    } catch (error) {
      if (!this.failed) this.onfail(messageOf(error))
      this.failed = true
    }
  }

  private replace(exited: ReaperProcess): void {
    if (this.shell !== exited) return
    this.shell = undefined
    if (!this.closed && this.groups.size > 0 && this.replacements-- > 0) this.begin()
  }

  private tell(line: string): void {
    try {
      this.shell?.stdin.write(`${line}\n`)
      void Promise.resolve(this.shell?.stdin.flush()).catch(() => undefined)
    } catch {
      // The shell has exited; its exit starts another shell.
    }
  }
}

type ReaperProcess = ReturnType<typeof spawnReaper>

/** Bounds replacements, so that a shell that exits at once is not started for ever. */
const MAX_REPLACED = 20

/**
 * Keeps the groups as its positional parameters. `starting` is set while svc starts a child: if svc is killed meanwhile, the
 * script adds the groups of all processes that hold the mark. When their stdin ends, children get a second to exit by
 * themselves.
 */
const SCRIPT = `
trap '' HUP INT TERM
set --
starting=
while read -r op id; do
  case $op in
    \\?) starting=1 ;;
    !) starting= ;;
    +) starting=; set -- "$@" "$id" ;;
    -) n=$#
       while [ "$n" -gt 0 ]; do
         [ "$1" = "$id" ] || set -- "$@" "$1"
         shift
         n=$((n - 1))
       done ;;
  esac
done
[ $# -gt 0 ] || [ -n "$starting" ] || exit 0
sleep 1
pgrp() { shift 4; echo "$1"; }
if [ -n "$starting" ]; then
  for fd in /proc/[0-9]*/fd/3; do
    pid=\${fd#/proc/}
    pid=\${pid%%/*}
    [ "$pid" != $$ ] && [ "$fd" -ef /proc/$$/fd/3 ] && read -r stat < "/proc/$pid/stat" || continue
    set -- "$@" "$(pgrp 1 2 \${stat##*) })"
  done
fi
for id; do kill -s TERM -- "-$id"; done
sleep 2
for id; do kill -s KILL -- "-$id"; done
`

function spawnReaper(mark: number | undefined) {
  return Bun.spawn({
    cmd: ["/bin/sh", "-c", SCRIPT],
    env: { PATH: "/usr/bin:/bin" },
    cwd: "/",
    stdio: ["pipe", "ignore", "ignore", ...(mark === undefined ? [] : [mark])],
    // A signal to svc's own group must not end the reaper.
    detached: true,
  })
}

/** Opens an empty file without a name. Returns undefined if the platform has no /proc to search, or the open fails. */
function openMark(): number | undefined {
  if (process.platform !== "linux") return undefined
  const path = join(tmpdir(), `svc-${crypto.randomUUID()}`)
  try {
    closeSync(openSync(path, "wx", 0o400))
    const mark = openSync(path, "r")
    unlinkSync(path)
    return mark
  } catch {
    return undefined
  }
}
