/** The size of a tool's result above which svc stores the result and answers with a part of it. */

/** The limit of an answer in characters; 0 for no limit. */
export type ResultBudget = number

/** The least budget: a shorter answer would have no room to describe what it leaves out. */
export const LEAST_RESULT_BUDGET = 2000

/** Characters per token: numbers and code have about two, prose has four. */
const CHARACTERS_PER_TOKEN = 2

/** Reads a budget as people write it: `20000`, `2000 tokens`, `0`. Returns undefined for any other text. */
export function parseResultBudget(written: string | number): ResultBudget | undefined {
  const [, number, unit] = /^(\d{1,9})\s*(char(?:acter)?s?|tokens?)?$/i.exec(String(written).trim()) ?? []
  if (number === undefined) return undefined
  const budget = Number(number) * (unit?.toLowerCase().startsWith("token") === true ? CHARACTERS_PER_TOKEN : 1)
  return budget === 0 || budget >= LEAST_RESULT_BUDGET ? budget : undefined
}

/** The valid forms of a budget, for messages. */
export const RESULT_BUDGET_FORM = `must be 0 (no limit), a number of characters from ${LEAST_RESULT_BUDGET}, or tokens such as "4000 tokens"`
