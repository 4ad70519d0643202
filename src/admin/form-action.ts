/** Runs the change of a form. */
import { useState } from "preact/hooks"
import { Problem, textOf } from "./api.ts"
import { useAction } from "./hooks.ts"

/** Works as useAction does, and returns the error text for the place beside the button instead of a notice. */
export function useFormAction() {
  const [busy, run] = useAction()
  const [problem, setProblem] = useState<string>()
  const runForm = (name: string, action: () => Promise<string | undefined>) => {
    setProblem(undefined)
    return run(name, async () => {
      try {
        return await action()
      } catch (error) {
        if (error instanceof Problem && error.status === 401) throw error
        setProblem(textOf(error))
        return undefined
      }
    })
  }
  return [busy, runForm, problem] as const
}
