import { expect, test } from "bun:test"
import * as z from "zod"
import { schemaProblem } from "../../src/lib/schema-problem.ts"

const schema = z.object({
  text: z.string().min(1).optional(),
  count: z.number().int().min(1).max(9).optional(),
  flag: z.boolean().optional(),
  list: z.array(z.string()).optional(),
  map: z.record(z.string(), z.string()).optional(),
  kind: z.enum(["a", "b"]).optional(),
  own: z.string({ error: "must be a word" }).optional(),
})

test.each<[unknown, string]>([
  [{ text: 5 }, "text: must be a string, not a number"],
  [{ text: "" }, "text: must not be empty"],
  [{ text: null }, "text: must be a string, not null"],
  [{ count: "secret" }, "count: must be a number, not a string"],
  [{ count: 1.5 }, "count: must be a whole number"],
  [{ count: Number.NaN }, "count: must be a number"],
  [{ count: 0 }, "count: must be at least 1"],
  [{ count: 10 }, "count: must be at most 9"],
  [{ flag: [] }, "flag: must be true or false, not an array"],
  [{ list: {} }, "list: must be an array, not an object"],
  [{ map: true }, "map: must be an object, not a boolean"],
  [{ kind: "c" }, "kind: must be one of a, b"],
  [{ own: 5 }, "own: must be a word"],
  [undefined, ": is missing; it must be an object"],
])("%j: %s", (value, expected) => {
  const { error } = schema.safeParse(value, { error: schemaProblem })
  expect(error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`)).toEqual([expected])
})
