/**
 * No server's process group outlives svc, not even when svc is killed with SIGKILL and cannot clean up: one small shell,
 * the reaper, holds a pipe to svc and the list of the groups. When the pipe ends and groups are left, it ends them. A
 * process that has made a session of its own is in no group of svc's.
 *
 *  1. The reaper runs before the first child does, and one that dies is replaced at once by one that knows the living.
 *  2. It hears of a child before the child is there. svc may be killed before it can say which group that is: on Linux the
 *     reaper finds it by the mark, an open file that a child inherits. Elsewhere such a child may be left.
 *
 * Why a shell: it costs 0.1 MB and 0.3 ms once, for any number of children; it works on Linux and macOS; and it reaches
 * what a child has started. The parent-death signal of Linux reaches only the child itself and only through a wrapper
 * for each; a record on disk would leave orphans until svc is started again.
 */
import { closeSync, openSync, unlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { messageOf } from "../lib/errors.ts"

/** Each start and each end of a process group is said here. */
export type Reaper = {
  /** Starts a child that leads a group of its own. It is to have `mark` as its file descriptor 3, where there is one. */
  start<C extends { readonly pid: number }>(spawn: (mark: number | undefined) => C): C
  /** The group is observed dead: from now on its number may be somebody else's. */
  remove(group: number): void
  /** The last moment of the process: kills at once whatever group is still there. */
  close(): void
}

/** Begins with the first child. `onfail` is told once where there can be no reaper. */
export function createReaper(onfail: (reason: string) => void): Reaper {
  // There a job does it, which needs no list: job-object.ts.
  if (process.platform === "win32") return { start: (spawn) => spawn(undefined), remove() {}, close() {} }
  const groups = new Set<number>()
  let reaper: ReaperProcess | undefined
  let mark: number | undefined
  let failed = false
  let closed = false
  /** How often it may be replaced before the next child starts. */
  let left = 0

  const tell = (line: string) => {
    try {
      reaper?.stdin.write(line)
      void Promise.resolve(reaper?.stdin.flush()).catch(() => undefined)
    } catch {
      // It is gone; its exit starts another.
    }
  }
  const begin = () => {
    try {
      mark ??= openMark()
      const own = spawnReaper(mark)
      reaper = own
      own.unref()
      void own.exited.then(() => {
        if (reaper !== own) return
        reaper = undefined
        if (!closed && groups.size > 0 && left-- > 0) begin()
      })
      for (const group of groups) tell(`+ ${group}\n`)
    } catch (error) {
      if (!failed) onfail(messageOf(error))
      failed = true
    }
  }
  return {
    start(spawn) {
      left = MAX_REPLACED
      if (reaper === undefined) begin()
      if (mark !== undefined) tell("?\n")
      try {
        const child = spawn(mark)
        groups.add(child.pid)
        tell(`+ ${child.pid}\n`)
        return child
      } catch (error) {
        tell("!\n")
        throw error
      }
    },
    remove(group) {
      if (groups.delete(group)) tell(`- ${group}\n`)
    },
    close() {
      closed = true
      for (const group of groups)
        try {
          process.kill(-group, "SIGKILL")
        } catch {
          // Nothing is left of it.
        }
      groups.clear()
      tell("!\n")
      const own = reaper
      reaper = undefined
      void Promise.resolve(own?.stdin.end()).catch(() => undefined)
      if (mark !== undefined) closeSync(mark)
      mark = undefined
    },
  }
}

// ---

type ReaperProcess = ReturnType<typeof spawnReaper>

/** A reaper that cannot live is not begun again and again. */
const MAX_REPLACED = 20

/**
 * The groups are the shell's positional parameters. `starting` is set while svc is starting a child: if svc is killed then,
 * the groups of all processes that hold the mark are added. A child that goes by itself when its stdin ends gets a second to.
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
    // What ends svc's own group must not end it.
    detached: true,
  })
}

/** An empty file without a name. Undefined where there is no use for one, or where none can be made. */
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
