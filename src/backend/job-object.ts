/**
 * Ends the descendants of servers on Windows: each child is in a job object, which its descendants inherit. svc ends the job
 * with the child, and Windows ends the job when svc ends, in whatever way. A process that was started to break away is in no
 * job. Bun's own job holds only the direct children of svc.
 *
 * svc assigns the job after the start of the child: a program takes far longer to load.
 */
import { dlopen } from "bun:ffi"
import { lazy } from "../lib/lazy.ts"
import { isAlive } from "../store/files.ts"
import type { ProcessGroup } from "./process-tree.ts"
import type { Reaper } from "./reaper.ts"

/** Returns a reaper that puts each child into a job. Calls `onfail` with the reason, once, if Windows refuses a job. */
export function createJobReaper(onfail: (reason: string) => void): Reaper {
  const windows = load()
  const fail = lazy(() => onfail("Windows refused a job object"))
  return {
    start(spawn) {
      const child = spawn(undefined)
      const job = createJob(windows)
      // A child that has exited already cannot be assigned.
      if (job === undefined || (!assign(windows, job, child.pid) && isAlive(child.pid))) fail()
      return { child, group: groupOf(windows, job) }
    },
    close() {},
  }
}

// ---

type Windows = ReturnType<typeof load>

function load() {
  return dlopen("kernel32.dll", {
    CreateJobObjectW: { args: ["u64", "u64"], returns: "u64" },
    SetInformationJobObject: { args: ["u64", "i32", "ptr", "u32"], returns: "i32" },
    QueryInformationJobObject: { args: ["u64", "i32", "ptr", "u32", "u64"], returns: "i32" },
    AssignProcessToJobObject: { args: ["u64", "u64"], returns: "i32" },
    TerminateJobObject: { args: ["u64", "u32"], returns: "i32" },
    OpenProcess: { args: ["u32", "i32", "u32"], returns: "u64" },
    CloseHandle: { args: ["u64"], returns: "i32" },
  }).symbols
}

/** Returns a job whose processes end when its handle is closed; undefined if Windows refuses it. */
function createJob(windows: Windows): bigint | undefined {
  const job = windows.CreateJobObjectW(0n, 0n)
  if (job === 0n) return undefined
  const limits = new Uint8Array(LIMITS_BYTES)
  new DataView(limits.buffer).setUint32(FLAGS_AT, KILL_ON_CLOSE | DIE_ON_CRASH | MAY_BREAK_AWAY, true)
  if (windows.SetInformationJobObject(job, EXTENDED_LIMITS, limits, limits.length) !== 0) return job
  windows.CloseHandle(job)
  return undefined
}

function assign(windows: Windows, job: bigint, pid: number): boolean {
  const child = windows.OpenProcess(SET_QUOTA | TERMINATE, 0, pid)
  const done = child !== 0n && windows.AssignProcessToJobObject(job, child) !== 0
  if (child !== 0n) windows.CloseHandle(child)
  return done
}

function groupOf(windows: Windows, job: bigint | undefined): ProcessGroup {
  let isOpen = job !== undefined
  return {
    isEmpty() {
      if (job === undefined || !isOpen) return true
      const counts = new Uint8Array(COUNTS_BYTES)
      windows.QueryInformationJobObject(job, BASIC_COUNTS, counts, counts.length, 0n)
      return new DataView(counts.buffer).getUint32(ACTIVE_AT, true) === 0
    },
    // Windows has no signals: the processes end at once.
    signal() {
      if (job !== undefined && isOpen) windows.TerminateJobObject(job, EXIT_CODE)
    },
    close() {
      if (job !== undefined && isOpen) windows.CloseHandle(job)
      isOpen = false
    },
  }
}

/** JOBOBJECT_EXTENDED_LIMIT_INFORMATION of 64-bit Windows, and the place of its LimitFlags. */
const LIMITS_BYTES = 144
const FLAGS_AT = 16
/** JobObjectExtendedLimitInformation */
const EXTENDED_LIMITS = 9
/** JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, and the place of its ActiveProcesses. */
const COUNTS_BYTES = 48
const ACTIVE_AT = 40
/** JobObjectBasicAccountingInformation */
const BASIC_COUNTS = 1
/** JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE */
const KILL_ON_CLOSE = 0x2000
/** JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION: a process that crashes ends without a dialog. */
const DIE_ON_CRASH = 0x400
/** JOB_OBJECT_LIMIT_BREAKAWAY_OK: without it, a process started with CREATE_BREAKAWAY_FROM_JOB would fail to start. */
const MAY_BREAK_AWAY = 0x800
/** PROCESS_SET_QUOTA and PROCESS_TERMINATE, which the assignment to a job requires. */
const SET_QUOTA = 0x100
const TERMINATE = 0x1
/** The exit code of processes that svc ends. */
const EXIT_CODE = 1
