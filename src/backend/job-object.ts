/**
 * Puts svc into a Windows job object of its own, which its descendants inherit. When svc ends, in whatever way, Windows
 * ends the processes left in the job. Bun's own job holds only the direct children of svc.
 */
import { dlopen } from "bun:ffi"

/** Creates the job. Throws if Windows refuses it. A process started earlier does not end with svc. */
export function createJobObject(library = "kernel32.dll"): void {
  const { symbols: windows } = dlopen(library, {
    CreateJobObjectW: { args: ["u64", "u64"], returns: "u64" },
    SetInformationJobObject: { args: ["u64", "i32", "ptr", "u32"], returns: "i32" },
    GetCurrentProcess: { args: [], returns: "u64" },
    AssignProcessToJobObject: { args: ["u64", "u64"], returns: "i32" },
  })
  // The handle stays open: Windows closes it with the process, which ends the rest of the job.
  const job = windows.CreateJobObjectW(0n, 0n)
  if (job === 0n) throw new Error("Windows did not create a job object")
  const limits = new Uint8Array(LIMITS_BYTES)
  new DataView(limits.buffer).setUint32(FLAGS_AT, KILL_ON_CLOSE | DIE_ON_CRASH | MAY_BREAK_AWAY, true)
  const done =
    windows.SetInformationJobObject(job, EXTENDED_LIMITS, limits, limits.length) !== 0 &&
    windows.AssignProcessToJobObject(job, windows.GetCurrentProcess()) !== 0
  if (!done) throw new Error("Windows refused the job object")
}

// ---

/** JOBOBJECT_EXTENDED_LIMIT_INFORMATION of 64-bit Windows, and the place of its LimitFlags. */
const LIMITS_BYTES = 144
const FLAGS_AT = 16
/** JobObjectExtendedLimitInformation */
const EXTENDED_LIMITS = 9
/** JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE */
const KILL_ON_CLOSE = 0x2000
/** JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION: a process that crashes ends without a dialog. */
const DIE_ON_CRASH = 0x400
/** JOB_OBJECT_LIMIT_BREAKAWAY_OK: without it, a process started with CREATE_BREAKAWAY_FROM_JOB would fail to start. */
const MAY_BREAK_AWAY = 0x800
