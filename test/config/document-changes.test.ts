import { expect, test } from "bun:test"
import { documentChanges } from "../../src/config/document-changes.ts"

const A = { command: "a", env: { KEY: "secret-value" } }
const text = (mcpServers: Readonly<Record<string, unknown>>, more = {}) =>
  JSON.stringify({ mcpServers, ...more }, null, 2)

test.each([
  ["", text({ a: A }), text({ a: A })],
  ["added b; removed a", text({ a: A }), text({ b: A })],
  ["changed a (env, tags)", text({ a: A }), text({ a: { command: "a", env: {}, tags: ["x"] } })],
  ["disabled a", text({ a: A }), text({ a: { ...A, disabled: true } })],
  ["enabled a", text({ a: { ...A, disabled: true } }), text({ a: A })],
  ["changed a (tags, disabled)", text({ a: A }), text({ a: { ...A, tags: [], disabled: true } })],
  ["changed serverDefaults", text({ a: A }), text({ a: A }, { serverDefaults: { timeout: 5 } })],
  ["changed a", text({ a: A }), JSON.stringify({ mcpTemplates: { a: A } })],
  ["changed only comments, order or whitespace", text({ a: A }), `// mine\n${text({ a: A })}`],
  ["removed a", text({ a: A }), "{"],
])("says %p, and no value [admin:undo]", (said, before, after) => {
  expect(documentChanges(before, after)).toBe(said)
})
