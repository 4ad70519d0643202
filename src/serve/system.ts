/** The port to what runs svc as a process: systemd, which svc tells its state, and `svc upgrade`, which lets another svc take over. */
import type { Paths } from "../store/paths.ts"
import type { Starter } from "../store/running.ts"

/** What svc, as it starts, knows of the system. */
export type System = {
  /** The svc that this one is to replace. */
  readonly predecessor: Predecessor | undefined
  /** Opens notifications to systemd. Resolves with undefined if it did not start svc. */
  openNotify(onfail: (reason: string) => void): Promise<SdNotify | undefined>
  /** Resolves when the predecessor of this svc, which listens already, has ended. Rejects with an UnavailableError if it does not. */
  takeOver(paths: Paths, shutdownGrace: number): Promise<void>
  /** Opens the handover of this svc to a successor. */
  openHandover(deps: HandoverDeps): Promise<Handover>
}

export type Predecessor = { readonly pid: number; readonly port: number }

export type SdNotify = {
  /** Reports that svc serves; `status` is a line for `systemctl status`. */
  ready(status: string): void
  reloading(): void
  stopping(): void
  /** The variables with which a successor reports to systemd. */
  readonly variables: Readonly<Record<string, string>>
  /** Reports that another process is the service from now on. */
  handOver(pid: number): void
  close(): void
}

export type HandoverDeps = {
  /** Undefined for a Unix socket. */
  readonly port: number | undefined
  readonly startedBy: Starter
  /** The arguments of this svc, without the program. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Called when the successor listens. */
  onsuccessor(pid: number): void
}

export type Handover = {
  /** Starts a successor. Resolves with its process id when it listens. Rejects with the reason if it does not; this svc then goes on. */
  start(program: string): Promise<number>
  /** The successor listens: from now on, this svc stops. Throws a RequestError for any other process. */
  accept(pid: number): void
}
