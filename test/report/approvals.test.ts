import { expect, test } from "bun:test"
import type { Agent } from "../../src/agent/agent.ts"
import { stepsOf } from "../../src/lib/steps.ts"
import { approvalsOf, pendingChanges } from "../../src/report/approvals.ts"

/** An agent with one server, whose tools have all changed to other descriptions of many short lines. */
function changed(tools: number, lines: number) {
  const text = (each: number) => Array.from({ length: lines }, (_, at) => String((at * at) % each)).join("\n")
  const names = Array.from({ length: tools }, (_, at) => `t${at}`)
  const backend = { spec: { id: "a", name: "a" } }
  return {
    all: () => [backend],
    changedTools: () => names.map((name) => ({ name, description: text(7) })),
    approvedDefinitions: () => new Map([["a", new Map(names.map((name) => [name, { name, description: text(3) }]))]]),
    isQuarantined: () => false,
  } as unknown as Agent
}

test("an answer has as many changes as fit, and compares them in a bounded number of steps", () => {
  const agent = changed(100, 9000)
  const changes = pendingChanges(agent)
  expect(changes).toHaveLength(100)
  const steps = stepsOf(100_000)
  const shown = approvalsOf(agent, changes, steps)
  expect(shown.length).toBeWithin(1, 20)
  expect(steps.left).toBeGreaterThan(-1000)
  // The lines of a text that is not compared are all there.
  expect(shown.at(-1)?.diff.filter(({ kind }) => kind !== "added")).toHaveLength(9002)
})

test("a change that is longer than an answer is shown, alone", () => {
  const agent = changed(3, 200_000)
  expect(approvalsOf(agent, pendingChanges(agent)).map(({ tool }) => tool)).toEqual(["t0"])
})
