import { expect, test } from "bun:test"
import { mergedSettings } from "../../src/admin/merge.ts"

const BASE = { command: "a", args: ["--key", "•••"], env: { KEY: "•••", MODE: "slow" } }

test.each([
  ["different members", { ...BASE, cwd: "/x" }, { ...BASE, tags: ["y"] }, { ...BASE, cwd: "/x", tags: ["y"] }],
  [
    "different variables",
    { ...BASE, env: { ...BASE.env, A: "1" } },
    { ...BASE, env: { KEY: "•••", B: "2" } },
    { ...BASE, env: { KEY: "•••", A: "1", B: "2" } },
  ],
  [
    "a new object on both sides",
    { ...BASE, headers: { A: "1" } },
    { ...BASE, headers: { B: "2" } },
    { ...BASE, headers: { A: "1", B: "2" } },
  ],
  ["the same change", { ...BASE, cwd: "/x" }, { ...BASE, cwd: "/x" }, { ...BASE, cwd: "/x" }],
  [
    "the same variable",
    { ...BASE, env: { KEY: "•••", MODE: "fast" } },
    { ...BASE, env: { KEY: "•••", MODE: "idle" } },
    undefined,
  ],
  ["a removed object against a changed one", { command: "a" }, { ...BASE, env: { KEY: "new" } }, undefined],
  [
    "a hidden secret that this one replaces",
    { ...BASE, cwd: "/x" },
    { ...BASE, env: { ...BASE.env, KEY: "new" } },
    undefined,
  ],
  ["a hidden secret that this one removes", { ...BASE, cwd: "/x" }, { command: "a" }, undefined],
  ["a hidden secret in a list", { ...BASE, cwd: "/x" }, { ...BASE, args: ["--key", "new"] }, undefined],
  [
    "a list that keeps its hidden secret",
    { ...BASE, cwd: "/x" },
    { ...BASE, args: ["-v", "--key", "•••"] },
    { ...BASE, cwd: "/x", args: ["-v", "--key", "•••"] },
  ],
  ["the same list", { ...BASE, tags: ["x"] }, { ...BASE, tags: ["y"] }, undefined],
])("settings with %s are merged, or refused [admin:merge]", (_, theirs, mine, merged) => {
  expect(mergedSettings(BASE, theirs, mine)).toEqual(merged)
})
