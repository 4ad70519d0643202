import { expect, test } from "bun:test"
import { hidesEveryTool } from "../../src/catalog/hidden-tools.ts"

const instance = (tools: readonly string[] | undefined, disabledTools: readonly string[] = []) => ({
  spec: { name: "A b", slug: "a-b", tuning: { disabledTools } },
  published: tools === undefined ? undefined : { listing: { tools: tools.map((name) => ({ name })) } },
})

test("the last enabled tool of any instance is known by each of its names [tools:zero]", () => {
  const both = ["one", "two"]
  for (const [instances, disabledTools, expected] of [
    [[instance(both)], ["one"], false],
    [[instance(both)], ["one", "a-b_svc_two"], true],
    [[instance(both)], ["A b_svc_one", "two"], true],
    [[instance(both, ["one"])], ["one", "two"], true],
    // Another instance still offers a tool, this one does not.
    [[instance(both), instance(["one"])], ["one"], true],
    // Nothing is lost by a server that offers none, or whose tools are not known.
    [[instance(both, both)], both, false],
    [[instance([])], both, false],
    [[instance(undefined)], both, false],
    [[], both, false],
  ] as const)
    expect([instances, disabledTools, hidesEveryTool(instances, disabledTools)]).toEqual([
      instances,
      disabledTools,
      expected,
    ])
})
