/**
 * The machine of a backend: `step(state, event, policy) -> [state, effects]`.
 */

/** How a process ended; `at` is milliseconds since the epoch. */
export type Exit = { readonly code: number | null; readonly signal: string | null; readonly at: number }

/**
 * One backend's state. Each variant has exactly its own facts; times are milliseconds since the epoch. `attempt` counts
 * consecutive automatic restarts so far (0 on a first start).
 */
export type State =
  | { readonly kind: "stopped" }
  | { readonly kind: "starting"; readonly epoch: number; readonly since: number }
  | {
      readonly kind: "connected"
      readonly epoch: number
      readonly since: number
      readonly pid: number | undefined
      readonly attempt: number
    }
  | { readonly kind: "waiting"; readonly epoch: number; readonly attempt: number; readonly retryAt: number }
  | { readonly kind: "recovering"; readonly epoch: number; readonly attempt: number; readonly since: number }
  | { readonly kind: "crashed"; readonly epoch: number; readonly attempt: number; readonly at: number }
  | { readonly kind: "failed"; readonly epoch: number; readonly at: number }
  | { readonly kind: "unauthorized"; readonly epoch: number; readonly at: number }
