/**
 * Windows: svc in a job object of its own, in which all that it starts is by itself, and what that starts. When svc ends,
 * however it does, Windows ends whatever is left in the job. Bun's own job holds only what svc itself has started.
 */
import { dlopen } from "bun:ffi"

/** Throws where Windows does not let svc. Whatever is to end with svc must be started after this. */
export function createJobObject(library = "kernel32.dll"): void {
  const { symbols: windows } = dlopen(library, {
    CreateJobObjectW: { args: ["u64", "u64"], returns: "u64" },
    SetInformationJobObject: { args: ["u64", "i32", "ptr", "u32"], returns: "i32" },
    GetCurrentProcess: { args: [], returns: "u64" },
    AssignProcessToJobObject: { args: ["u64", "u64"], returns: "i32" },
  })
  // Its handle is never closed: that it is, with the process, is what ends the rest.
  const job = windows.CreateJobObjectW(0n, 0n)
  if (job === 0n) throw new Error("Windows gives no job object")
  const limits = new Uint8Array(LIMITS_BYTES)
  new DataView(limits.buffer).setUint32(FLAGS_AT, KILL_ON_CLOSE | DIE_ON_CRASH | MAY_BREAK_AWAY, true)
  const done =
    windows.SetInformationJobObject(job, EXTENDED_LIMITS, limits, limits.length) !== 0 &&
    windows.AssignProcessToJobObject(job, windows.GetCurrentProcess()) !== 0
  if (!done) throw new Error("Windows refuses a job object")
}

// ---

/** JOBOBJECT_EXTENDED_LIMIT_INFORMATION of 64-bit Windows, and the place of its LimitFlags. */
const LIMITS_BYTES = 144
const FLAGS_AT = 16
/** JobObjectExtendedLimitInformation */
const EXTENDED_LIMITS = 9
/** JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE */
const KILL_ON_CLOSE = 0x2000
/** JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION: what crashes ends, and does not wait for somebody to close a window. */
const DIE_ON_CRASH = 0x400
/** JOB_OBJECT_LIMIT_BREAKAWAY_OK: who asks to be started outside would not be started at all without it. */
const MAY_BREAK_AWAY = 0x800
