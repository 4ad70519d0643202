/**
 * Large results: fits the results of tools into their budgets, and offers the tool and the resources that read stored ones. Small,
 * because every session uses it; the rest is loaded by the first result that is too large. choice: Large results.
 */

import { appending } from "../../call/own-tools.ts"
import type { FitResults, OwnTools, ResultFit } from "../../call/ports.ts"
import type { Route } from "../../catalog/catalog.ts"
import type { ResultBudget } from "../../config/result-budget.ts"
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
  readonly fit: FitResults
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
    fit: fittingResults(port),
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

/** Returns the function that counts the sizes of results, and fits them into their budgets. */
function fittingResults(port: ResultsPort): FitResults {
  const { sizes } = port
  let storing: typeof import("./stored-answer.ts").storedAnswer | undefined
  const count = (size: number, route: Route) => {
    if (route.unlisted === undefined) sizes.record(route.id, route.name, size)
  }
  // The same for all calls: it runs for each.
  const counted: ResultFit = {
    fit(answer, size, route) {
      count(size, route)
      return answer
    },
  }
  return (call, { spec }) => {
    const budget = budgetFor(call.client.scope, spec, port)
    if (budget === undefined) return counted
    const fitting = (begin: NonNullable<typeof storing>): ReturnType<FitResults> => {
      let stored: StoredAnswer | undefined
      return {
        store() {
          stored = begin(call, port, spec.name, budget)
          return stored
        },
        fit(answer, size, route) {
          count(size, route)
          // The length alone shows that most answers fit.
          if (size <= budget || answer.code !== undefined) return answer
          return import("./fit-result.ts").then(async ({ fitResult }) =>
            fitResult(answer, call, port, { spec }, route.name, budget, await stored?.taken()),
          )
        },
        close: async () => stored?.abort(),
      }
    }
    if (storing !== undefined) return fitting(storing)
    return import("./stored-answer.ts").then(({ storedAnswer }) => {
      storing = storedAnswer
      return fitting(storedAnswer)
    })
  }
}
