/** Reads what systemd passes to a service in its environment: sd_notify(3), sd_watchdog_enabled(3). */

/** The settings of systemd in the environment of svc. */
export type SdEnvironment = { readonly socket: string; readonly watchdogMs: number | undefined }

/**
 * Removes systemd's variables from the environment, because a server that inherits them could speak for svc. Returns their
 * settings; undefined if there are none.
 */
export function takeSdEnvironment(env: Record<string, string | undefined>, pid: number): SdEnvironment | undefined {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: period, WATCHDOG_PID: watched } = env
  for (const name of ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]) delete env[name]
  if (socket === undefined || !/^[/@]./.test(socket)) return undefined
  const ms = Number(period) / 1000
  const isWatched = ms > 0 && (watched === undefined || watched === String(pid))
  return { socket, watchdogMs: isWatched ? ms : undefined }
}
