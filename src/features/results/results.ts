/**
 * Large results: fits the results of tools into their budgets, and offers the tool and the resources that read stored ones. Small,
 * because every session uses it; the rest is loaded by the first result that is too large. choice: Large results.
 */

import type { Answer } from "../../call/answer.ts"
import { appending } from "../../call/own-tools.ts"
import type { ClientCall, Handler, OwnTools, Routed, Stage, Target } from "../../call/ports.ts"
import type { Route } from "../../catalog/catalog.ts"
import type { ResultBudget } from "../../config/result-budget.ts"
import { BackendError } from "../../lib/errors.ts"
import { backendFailure } from "../../session/relay.ts"
import {
  budgetFor,
  isResultUri,
  offersReading,
  READ_RESULT,
  READ_RESULT_ENTRY,
  type ResultsPort,
  replicaOfResult,
  withSizes,
} from "./result-budget.ts"
import { ResultSizes } from "./result-sizes.ts"
import type { ResultStore } from "./result-store.ts"
import type { StoredAnswer } from "./stored-answer.ts"
import type { StoredResultOptions } from "./stored-results.ts"

export type Results = {
  readonly sizes: ResultSizes
  /** The tool and the resources that read stored results. */
  readonly tools: OwnTools
  /** Counts the sizes of results, and fits them into their budgets. */
  readonly stage: Stage
  /** Opens the store, and removes expired results from it. */
  sweep(): void
  /** Closes the store, if it is open. */
  close(): Promise<void>
}

/** `budget`: the budget of a server that has none; 0 for none. The store opens at the first large result. */
export function openResults(budget: ResultBudget, options: StoredResultOptions, warn: (text: string) => void): Results {
  const warned = new Set<string>()
  const warnOnce = (text: string) => {
    if (warned.has(text) || warned.size >= MAX_WARNINGS) return
    warned.add(text)
    warn(text)
  }
  let opened: Promise<ResultStore> | undefined
  const store = () => {
    opened ??= import("./stored-results.ts").then(({ openStoredResults }) => openStoredResults(options, warnOnce))
    return opened
  }
  const port: ResultsPort = { budget, sizes: new ResultSizes(), store, warnOnce, replica: options.replica }
  return {
    sizes: port.sizes,
    tools: resultTools(port),
    stage: resultBudgets(port),
    sweep: () => void store().then((found) => found.sweep()),
    close: async () => (await opened?.catch(() => undefined))?.close(),
  }
}

/** Returns `read_result`, and the resources `svc://results/…`. */
export function resultTools(port: ResultsPort): OwnTools {
  const withReading = appending((listed) => [...listed, READ_RESULT_ENTRY])
  const loaded = () => import("./read-result.ts")
  return {
    has: (name, { client: { scope } }, view) =>
      name === READ_RESULT && offersReading(scope, view, port) ? "offered" : undefined,
    entries: ({ scope }, view) => (offersReading(scope, view, port) ? [READ_RESULT_ENTRY] : []),
    list(listed, { scope }, view) {
      const sized = withSizes(listed, scope, view, port)
      return offersReading(scope, view, port) ? withReading(sized) : sized
    },
    run: (call) => loaded().then(({ answerReadResult }) => answerReadResult(call, port)),
    read: (uri) =>
      isResultUri(uri)
        ? (call) => loaded().then(({ answerResultResource }) => answerResultResource(call, port, uri))
        : undefined,
    capabilities: ({ scope }, view) => (offersReading(scope, view, port) ? { resources: {} } : {}),
    replicaOf: replicaOfResult,
  }
}

// ---

const MAX_WARNINGS = 1000

type Storing = typeof import("./stored-answer.ts").storedAnswer

/** Returns the stage of the result budgets. Its code is loaded by the first call that has one. */
function resultBudgets(port: ResultsPort): Stage {
  let storing: Storing | undefined
  return (next) => (call, to) => {
    const { target, route } = to
    if (call.request.method !== "tools/call" || typeof target === "string") return next(call, to)
    const budget = budgetFor(call.client.scope, target.spec, port)
    if (budget === undefined) {
      const answer = next(call, to)
      return answer instanceof Promise ? answer.then((one) => counted(one, route, port)) : counted(answer, route, port)
    }
    const fit = (found: Storing) => fitted(next, call, to, { spec: target.spec, budget, port, storing: found })
    if (storing !== undefined) return fit(storing)
    return import("./stored-answer.ts").then(({ storedAnswer }) => {
      storing = storedAnswer
      return fit(storedAnswer)
    })
  }
}

type Fitting = Pick<Target, "spec"> & {
  readonly budget: number
  readonly port: ResultsPort
  readonly storing: Storing
}

/** Answers a call within the budget of its results. A large answer is stored while it arrives. */
async function fitted(next: Handler, call: ClientCall, to: Routed, fitting: Fitting): Promise<Answer> {
  const { spec, budget, port, storing } = fitting
  let stored: StoredAnswer | undefined
  const store = () => {
    stored = storing(call, port, spec.name, budget)
    return stored
  }
  try {
    const answer = counted(await next(call, { ...to, store }), to.route, port)
    // The length alone shows that most answers fit.
    if (!isResult(answer) || sizeOf(answer) <= budget) return answer
    const { fitResult } = await import("./fit-result.ts")
    return await fitResult(answer, call, port, { spec }, to.route.name, budget, await stored?.taken())
  } catch (error) {
    if (!(error instanceof BackendError)) throw error
    return backendFailure(error, call)
  } finally {
    await stored?.abort()
  }
}

/** Counts the size of an answer if it is a result of a listed tool. */
function counted(answer: Answer, route: Route, { sizes }: ResultsPort): Answer {
  if (route.unlisted === undefined && isResult(answer)) sizes.record(route.id, route.name, sizeOf(answer))
  return answer
}

/** Whether an answer is the result of a tool: no error of its server or of svc, and no task. */
const isResult = ({ code, task }: Answer): boolean => code === undefined && task === undefined

/** Returns the size of an answer as it arrived, in bytes or characters. */
const sizeOf = ({ arrived, sent, frame }: Answer): number => arrived ?? sent ?? frame.length
