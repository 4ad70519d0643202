/** Bounds the work on values from outside: the steps that a walk may still take. Tests count the steps of a walk with them. */

/** The steps that are left. */
export type Steps = { left: number }

export const stepsOf = (most: number): Steps => ({ left: most })

/** Takes one step, or more. Returns whether it was left. */
export function canStep(steps: Steps, count = 1): boolean {
  steps.left -= count
  return steps.left >= 0
}
