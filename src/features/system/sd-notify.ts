/**
 * Reports the state of svc to systemd over the socket in NOTIFY_SOCKET (sd_notify(3)): ready, reloading, stopping, and alive
 * twice per watchdog period. Bun has no Unix datagram sockets, so libc sends the messages, through bun:ffi. A helper process
 * such as systemd-notify would need NotifyAccess=all, which would allow every server to speak for svc.
 */
import { dlopen } from "bun:ffi"
import type { Clock } from "../../lib/clock.ts"
import { messageOf } from "../../lib/errors.ts"
import type { SdNotify } from "../../serve/system.ts"
import type { SdEnvironment } from "./sd-environment.ts"

/** Connects to systemd. Calls `onfail` with the reason if a message cannot be sent; svc runs on. */
export function openSdNotify(
  { socket, watchdogMs }: SdEnvironment,
  clock: Clock,
  onfail: (reason: string) => void,
): SdNotify {
  const send = openDatagrams(socket, onfail)
  let cancel = () => {}
  const beat = () => {
    send?.("WATCHDOG=1")
    if (watchdogMs !== undefined) cancel = clock.after(watchdogMs / 2, beat)
  }
  return {
    ready(text) {
      send?.(`READY=1\nSTATUS=${text}`)
      cancel()
      beat()
    },
    reloading: () => send?.(`RELOADING=1\nMONOTONIC_USEC=${monotonicMicroseconds()}`),
    variables: {
      NOTIFY_SOCKET: socket,
      ...(watchdogMs === undefined ? {} : { WATCHDOG_USEC: String(watchdogMs * 1000) }),
    },
    handOver: (pid) => send?.(`MAINPID=${pid}\nSTATUS=process ${pid} takes over`),
    stopping: () => send?.("STOPPING=1\nSTATUS=stopping"),
    close: () => cancel(),
  }
}

// ---

const AF_UNIX = 1
/** SOCK_DGRAM | SOCK_CLOEXEC */
const DATAGRAM = 0x80002
const MSG_NOSIGNAL = 0x4000
const CLOCK_MONOTONIC = 1
/** Bytes of a path in sockaddr_un. */
const MAX_PATH = 108

/** The name of glibc's libc, which musl's loader maps to its own. */
const openLibc = () =>
  dlopen("libc.so.6", {
    socket: { args: ["i32", "i32", "i32"], returns: "i32" },
    sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
    clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
    close: { args: ["i32"], returns: "i32" },
  }).symbols

/** Returns a function that sends one message; undefined if that is impossible. */
function openDatagrams(path: string, onfail: (reason: string) => void): ((text: string) => void) | undefined {
  const name = Buffer.from(path)
  if (name.length >= MAX_PATH) {
    onfail(`NOTIFY_SOCKET is longer than ${MAX_PATH - 1} bytes`)
    return undefined
  }
  let libc: ReturnType<typeof openLibc>
  try {
    libc = openLibc()
  } catch (error) {
    onfail(messageOf(error))
    return undefined
  }
  // sockaddr_un: the family and the path; an abstract path begins with a null byte and does not end with one.
  const isAbstract = path.startsWith("@")
  if (isAbstract) name[0] = 0
  const address = Buffer.concat([
    Buffer.from(new Uint16Array([AF_UNIX]).buffer),
    name,
    Buffer.alloc(isAbstract ? 0 : 1),
  ])
  return (text) => {
    const message = Buffer.from(text)
    // Opens a socket for each message: messages are rare, and no socket stays open.
    const handle = libc.socket(AF_UNIX, DATAGRAM, 0)
    const sent = Number(libc.sendto(handle, message, message.length, MSG_NOSIGNAL, address, address.length))
    libc.close(handle)
    if (sent !== message.length) onfail(`systemd does not take messages at ${path}`)
  }
}

/** Returns the time of CLOCK_MONOTONIC, by which systemd matches a reload to its request. */
function monotonicMicroseconds(): bigint {
  const time = new BigInt64Array(2)
  openLibc().clock_gettime(CLOCK_MONOTONIC, time)
  return (time[0] ?? 0n) * 1_000_000n + (time[1] ?? 0n) / 1000n
}
